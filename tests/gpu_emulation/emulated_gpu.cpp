#include "tests/gpu_emulation/emulated_gpu.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/cuda_emulation/stream.h"

namespace strata::gpu_emulation {
namespace {

using Clock = std::chrono::steady_clock;

/// Disjoint pieces of memory by their first byte.
class Pieces {
 public:
  void add(const void* first, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    pieces_[address(first)] = bytes;
    total_ += bytes;
  }
  /// Its bytes; 0 if there is none that begins here.
  std::size_t remove(const void* first) {
    const std::lock_guard lock(mutex_);
    const auto found = pieces_.find(address(first));
    if (found == pieces_.end()) return 0;
    const std::size_t bytes = found->second;
    pieces_.erase(found);
    total_ -= bytes;
    return bytes;
  }
  enum class Part : std::uint8_t { outside, inside, across };
  /// Where the bytes are: in no piece, in one, or across the border of one.
  Part part(const void* first, std::size_t bytes) const {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t begin = address(first);
    auto piece = pieces_.upper_bound(begin);
    if (piece != pieces_.end() && piece->first < begin + bytes) return Part::across;
    if (piece == pieces_.begin()) return Part::outside;
    --piece;
    if (begin >= piece->first + piece->second) return Part::outside;
    return begin + bytes <= piece->first + piece->second ? Part::inside : Part::across;
  }
  std::size_t total() const {
    const std::lock_guard lock(mutex_);
    return total_;
  }

 private:
  static std::uintptr_t address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> pieces_;
  std::size_t total_ = 0;
};

struct Gpu {
  Pieces memory, locked;
  std::mutex mutex;
  std::string failure;
  std::atomic<double> spent_seconds = 0;
};
Gpu& gpu() {
  static Gpu instance;
  return instance;
}

/// By the clock of events.
double seconds_now() {
  if (machine().product_seconds) return gpu().spent_seconds;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t refuse(cudaError_t error) {
  last_error = error;
  return error;
}

bool has_failed() {
  const std::lock_guard lock(gpu().mutex);
  return !gpu().failure.empty();
}

class EmulatedStream final : public CUstream_st {
 public:
  ~EmulatedStream() override {
    wait_until(issued());
    add(nullptr);
    demand(issued());
    thread_.join();
  }

  void add(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    ++issued_;
    if (!machine().lazy) demanded_ = issued_;
    changed_.notify_all();
  }
  bool computes() const override { return machine().computes; }
  std::int64_t issued() const {
    const std::lock_guard lock(mutex_);
    return issued_;
  }
  /// Somebody wants the first `count` pieces of work to be done. Whether they are.
  bool demand(std::int64_t count) {
    const std::lock_guard lock(mutex_);
    demanded_ = std::max(demanded_, count);
    changed_.notify_all();
    return done_ >= count;
  }
  bool is_of_this_thread() const { return maker_ == std::this_thread::get_id(); }
  void wait_until(std::int64_t count) {
    demand(count);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= count; });
  }

 private:
  void perform() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return demanded_ > done_ && !work_.empty(); });
      const std::function<void()> next = std::move(work_.front());
      work_.pop_front();
      if (!next) return;
      lock.unlock();
      try {
        next();
      } catch (const std::exception& error) {
        fail(error.what());
      }
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::int64_t issued_ = 0, demanded_ = 0, done_ = 0;
  std::thread::id maker_ = std::this_thread::get_id();
  std::thread thread_{[this] { perform(); }};
};

/// Streams live on while an event or another stream may wait for them.
class Streams {
 public:
  cudaStream_t make() {
    auto stream = std::make_shared<EmulatedStream>();
    const std::lock_guard lock(mutex_);
    streams_[stream.get()] = stream;
    return stream.get();
  }
  void remove(cudaStream_t stream) {
    const std::shared_ptr<EmulatedStream> last = of(stream);
    last->wait_until(last->issued());
    const std::lock_guard lock(mutex_);
    streams_.erase(stream);
  }
  std::shared_ptr<EmulatedStream> of(cudaStream_t stream) const {
    const std::lock_guard lock(mutex_);
    return streams_.at(stream);
  }
  /// Those that this thread has made: threads that are ranks have a GPU each.
  void wait_for_all() const {
    std::map<cudaStream_t, std::shared_ptr<EmulatedStream>> streams;
    {
      const std::lock_guard lock(mutex_);
      streams = streams_;
    }
    for (const auto& [handle, stream] : streams) {
      if (stream->is_of_this_thread()) stream->wait_until(stream->issued());
    }
  }

 private:
  mutable std::mutex mutex_;
  std::map<cudaStream_t, std::shared_ptr<EmulatedStream>> streams_;
};
Streams& streams() {
  static Streams instance;
  return instance;
}

}  // namespace

Machine& machine() {
  static Machine instance;
  return instance;
}
Counts& counts() {
  static Counts instance{};
  return instance;
}

void fail(const std::string& why) {
  const std::lock_guard lock(gpu().mutex);
  if (gpu().failure.empty()) gpu().failure = why;
}
std::string take_failure() {
  const std::lock_guard lock(gpu().mutex);
  return std::exchange(gpu().failure, {});
}

void spend(double seconds) {
  gpu().spent_seconds += seconds;
}

bool is_on_device(const void* memory, std::size_t bytes) {
  return gpu().memory.part(memory, bytes) == Pieces::Part::inside;
}

}  // namespace strata::gpu_emulation

using namespace strata::gpu_emulation;

/// A point in a stream, once it was recorded.
struct CUevent_st {
  std::mutex mutex;
  std::shared_ptr<EmulatedStream> stream;
  std::int64_t issued = 0;
  std::shared_ptr<double> seconds;
};

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : refuse(cudaErrorInvalidDevice);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = 0;
  if (attribute == cudaDevAttrComputeCapabilityMajor) *value = machine().compute_capability / 10;
  if (attribute == cudaDevAttrComputeCapabilityMinor) *value = machine().compute_capability % 10;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strncpy(properties->name, machine().name.c_str(), sizeof properties->name - 1);
  properties->totalGlobalMem = machine().device_bytes;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int) {
  std::strncpy(text, "0000:00:00.0", static_cast<std::size_t>(length));
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error of the emulated GPU";
}
const char* cudaGetErrorName(cudaError_t error) {
  static thread_local std::string name;
  return (name = "error " + std::to_string(error)).c_str();
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const std::size_t used = gpu().memory.total();
  *memory = nullptr;
  if (bytes > machine().device_bytes - std::min(used, machine().device_bytes))
    return refuse(cudaErrorMemoryAllocation);
  constexpr std::size_t kAlignment = 512;
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (*memory == nullptr) return refuse(cudaErrorMemoryAllocation);
  if (machine().computes) std::memset(*memory, 0xFF, bytes);
  gpu().memory.add(*memory, bytes);
  const std::int64_t now = counts().device_bytes += static_cast<std::int64_t>(bytes);
  if (now > counts().most_device_bytes) counts().most_device_bytes = now;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  streams().wait_for_all();
  const std::size_t bytes = gpu().memory.remove(memory);
  if (bytes == 0) return refuse(cudaErrorInvalidValue);
  counts().device_bytes -= static_cast<std::int64_t>(bytes);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = machine().device_bytes;
  *free = *total - gpu().memory.total();
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  if (!is_on_device(memory, bytes)) return refuse(cudaErrorInvalidValue);
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  streams().wait_for_all();
  return has_failed() ? refuse(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  if (bytes == 0) return refuse(cudaErrorInvalidValue);
  if (bytes > machine().largest_lock || gpu().locked.total() + bytes > machine().lockable_bytes)
    return refuse(cudaErrorMemoryAllocation);
  if (gpu().locked.part(memory, bytes) != Pieces::Part::outside)
    return refuse(cudaErrorHostMemoryAlreadyRegistered);
  gpu().locked.add(memory, bytes);
  ++counts().registrations;
  counts().locked_bytes += static_cast<std::int64_t>(bytes);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  streams().wait_for_all();
  const std::size_t bytes = gpu().locked.remove(memory);
  counts().locked_bytes -= static_cast<std::int64_t>(bytes);
  return bytes == 0 ? refuse(cudaErrorHostMemoryNotRegistered) : cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  constexpr std::size_t kPage = 4096;
  *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  const cudaError_t status = cudaHostRegister(*memory, bytes, flags);
  if (status != cudaSuccess) std::free(*memory);
  return status;
}
cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const cudaError_t status = cudaHostUnregister(memory);
  if (status == cudaSuccess) std::free(memory);
  return status;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
/// Where the host's memory is not locked the call returns after the copy, as for pageable memory.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool to_device = kind == cudaMemcpyHostToDevice;
  const void* host = to_device ? from : to;
  if (!is_on_device(to_device ? to : from, bytes)) return refuse(cudaErrorInvalidValue);
  const Pieces::Part part = gpu().locked.part(host, bytes);
  if (part == Pieces::Part::across) return refuse(cudaErrorInvalidValue);
  ++counts().copies;
  stream->add([=] { std::memcpy(to, from, bytes); });
  if (part == Pieces::Part::outside) {
    ++counts().pageable_copies;
    return cudaStreamSynchronize(stream);
  }
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = streams().make();
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == cudaStreamLegacy) return cudaSuccess;  // cudaMemcpy() alone uses it
  const std::shared_ptr<EmulatedStream> waited = streams().of(stream);
  waited->wait_until(waited->issued());
  return has_failed() ? refuse(cudaErrorLaunchFailure) : cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  streams().remove(stream);
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  stream->add([=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(event->mutex);
  event->stream = streams().of(stream);
  event->seconds = std::make_shared<double>();
  event->stream->add([seconds = event->seconds] { *seconds = seconds_now(); });
  event->issued = event->stream->issued();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (has_failed()) return refuse(cudaErrorLaunchFailure);
  const std::lock_guard lock(event->mutex);
  if (!event->stream || event->stream->demand(event->issued)) return cudaSuccess;
  return refuse(cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  *milliseconds = static_cast<float>((*end->seconds - *start->seconds) * 1e3);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(event->mutex);
  if (!event->stream) return cudaSuccess;
  if (event->stream.get() == stream) return cudaSuccess;
  stream->add([other = event->stream, issued = event->issued] { other->wait_until(issued); });
  return cudaSuccess;
}

}  // extern "C"
