// The collective tests on GPUs: their values lie in host memory, so each call copies them to the GPU, waits,
// and copies back.
#include <cuda_runtime_api.h>

#include <stdexcept>
#include <utility>

#include "collectives/nccl_communicator.h"
#include "tests/collectives_mpi/rank_of_process.h"

namespace strata::test {
namespace {

void check(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&data_, bytes > 0 ? bytes : 1));
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(DeviceBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBytes& operator=(DeviceBytes&&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  void copy_from(const void* host) const {
    check(cudaMemcpy(data_, host, bytes_, cudaMemcpyHostToDevice));
    // From pageable memory it returns once the bytes are staged, and other streams do not wait for it.
    check(cudaStreamSynchronize(cudaStreamLegacy));
  }
  void copy_to(void* host) const { check(cudaMemcpy(host, data_, bytes_, cudaMemcpyDeviceToHost)); }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

using StreamOfRank = std::shared_ptr<CUstream_st>;

StreamOfRank make_stream() {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return {made, [](cudaStream_t stream) { cudaStreamDestroy(stream); }};
}

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(StreamOfRank stream, std::unique_ptr<Communicator> gpu)
      : stream_(std::move(stream)), gpu_(std::move(gpu)) {}

  int rank() const override { return gpu_->rank(); }
  int size() const override { return gpu_->size(); }

  void all_gather(const void* send, void* receive, std::size_t count, Element element) override {
    const std::size_t bytes = count * size_of(element);
    const std::size_t place = static_cast<std::size_t>(rank()) * bytes;
    const DeviceBytes whole(ranks() * bytes), own(bytes);
    const bool in_place = send == static_cast<std::byte*>(receive) + place;
    if (in_place) whole.copy_from(receive);
    own.copy_from(send);
    gpu_->all_gather(in_place ? whole.data() + place : own.data(), whole.data(), count, element);
    finish(whole, receive);
  }
  void reduce_scatter(const void* send, void* receive, std::size_t count, Element element,
                      ReduceOp op) override {
    const std::size_t bytes = count * size_of(element);
    const DeviceBytes whole(ranks() * bytes), own(bytes);
    whole.copy_from(send);
    gpu_->reduce_scatter(whole.data(), own.data(), count, element, op);
    finish(own, receive);
  }
  void all_reduce(const void* send, void* receive, std::size_t count, Element element, ReduceOp op) override {
    const DeviceBytes from(count * size_of(element)), to(count * size_of(element));
    from.copy_from(send);
    gpu_->all_reduce(from.data(), send == receive ? from.data() : to.data(), count, element, op);
    finish(send == receive ? from : to, receive);
  }
  void broadcast(void* data, std::size_t count, Element element, int root) override {
    const DeviceBytes all(count * size_of(element));
    all.copy_from(data);
    gpu_->broadcast(all.data(), count, element, root);
    finish(all, data);
  }
  void all_to_all(const void* send, void* receive, std::size_t count, Element element) override {
    const DeviceBytes from(ranks() * count * size_of(element)), to(ranks() * count * size_of(element));
    from.copy_from(send);
    gpu_->all_to_all(from.data(), to.data(), count, element);
    finish(to, receive);
  }

  void send(const void* data, std::size_t count, Element element, int peer) override {
    const DeviceBytes& sent = stage(count * size_of(element), nullptr);
    sent.copy_from(data);
    gpu_->send(sent.data(), count, element, peer);
    if (!in_group_) finish_messages();
  }
  void receive(void* data, std::size_t count, Element element, int peer) override {
    gpu_->receive(stage(count * size_of(element), data).data(), count, element, peer);
    if (!in_group_) finish_messages();
  }
  void begin_group() override {
    in_group_ = true;
    gpu_->begin_group();
  }
  void end_group() override {
    gpu_->end_group();
    in_group_ = false;
    finish_messages();
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    std::unique_ptr<Communicator> part = gpu_->split(color, key);
    if (!part) return nullptr;
    return std::make_unique<StagedCommunicator>(stream_, std::move(part));
  }
  std::size_t sent_bytes() const override { return gpu_->sent_bytes(); }
  std::optional<std::string> failure() const override { return gpu_->failure(); }
  void abort(const std::string& reason) override { gpu_->abort(reason); }

 private:
  struct Staged {
    DeviceBytes device;
    void* host;  ///< where a received message goes; null if it is sent
  };

  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  const DeviceBytes& stage(std::size_t bytes, void* host) {
    return messages_.emplace_back(Staged{DeviceBytes(bytes), host}).device;
  }
  void finish(const DeviceBytes& device, void* host) const {
    check(cudaStreamSynchronize(stream_.get()));
    device.copy_to(host);
  }
  void finish_messages() {
    check(cudaStreamSynchronize(stream_.get()));
    for (const Staged& message : messages_)
      if (message.host) message.device.copy_to(message.host);
    messages_.clear();
  }

  const StreamOfRank stream_;
  const std::unique_ptr<Communicator> gpu_;
  bool in_group_ = false;
  std::vector<Staged> messages_;
};

}  // namespace

bool folds_in_order() {
  return false;
}

std::unique_ptr<Communicator> rank_of_process(std::unique_ptr<Communicator> on_host) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices));
  check(cudaSetDevice(on_host->rank() % devices));
  StreamOfRank stream = make_stream();
  std::unique_ptr<Communicator> gpu = make_nccl_communicator(std::move(on_host), {.stream = stream.get()});
  return std::make_unique<StagedCommunicator>(std::move(stream), std::move(gpu));
}

}  // namespace strata::test
