#include "engine/tools/profile/memory_view.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace strata {
namespace {

/// What of Python's pickle protocol 2 a snapshot needs.
class PickleWriter {
 public:
  PickleWriter() { bytes_ = "\x80\x02"; }

  void begin_list() { bytes_ += "]("; }
  void end_list() { bytes_ += 'e'; }
  void begin_dict() { bytes_ += "}("; }
  void end_dict() { bytes_ += 'u'; }

  void add(std::int64_t value) {
    bytes_ += "\x8a\x08";  // LONG1 of eight bytes
    add_little_endian(static_cast<std::uint64_t>(value), 8);
  }
  /// A text that was there before is named again by its number.
  void add(std::string_view text) {
    const auto [found, is_new] =
        texts_.try_emplace(std::string(text), static_cast<std::uint32_t>(texts_.size()));
    if (is_new) {
      bytes_ += 'X';
      add_little_endian(text.size(), 4);
      bytes_ += text;
    }
    bytes_ += is_new ? 'r' : 'j';
    add_little_endian(found->second, 4);
  }
  void add(std::string_view key, std::int64_t value) {
    add(key);
    add(value);
  }
  void add(std::string_view key, std::string_view value) {
    add(key);
    add(value);
  }

  std::string take() { return std::move(bytes_ += '.'); }

 private:
  void add_little_endian(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }

  std::string bytes_;
  std::map<std::string, std::uint32_t> texts_;
};

class MemoryView {
 public:
  explicit MemoryView(const StepProfile& profile) : profile_(profile), program_(*profile.program) {
    for (const BufferLife& life : profile.lives) {
      if (life.maker < 0) {
        staying_.push_back(life.buffer);
      } else {
        begins_[life.maker].push_back(life.buffer);
      }
      if (life.last_user >= 0) ends_[life.last_user].push_back(life.buffer);
    }
  }

  std::string make() {
    pickle_.begin_dict();
    pickle_.add("segments");
    pickle_.begin_list();
    for (const Tier tier : kTiers) add_segment(tier);
    pickle_.end_list();
    pickle_.add("device_traces");
    pickle_.begin_list();
    for (const Tier tier : kTiers) add_events(tier);
    pickle_.end_list();
    pickle_.end_dict();
    return pickle_.take();
  }

 private:
  Bytes end_of(Tier tier) const {
    Bytes end = 0;
    for (const BufferLife& life : profile_.lives) {
      const Buffer& buffer = program_.buffer(life.buffer);
      if (buffer.tier == tier) end = std::max(end, buffer.offset + buffer.bytes);
    }
    return end;
  }

  /// The innermost is the buffer; who makes it is around it.
  void add_frames(const Buffer& buffer, std::int32_t maker) {
    pickle_.add("frames");
    pickle_.begin_list();
    add_frame(*buffer.name, name_of(buffer.kind), 0);
    if (maker >= 0)
      add_frame(title_of(program_, profile_.instruction(maker)), name_of(profile_.instruction(maker).lane),
                maker);
    pickle_.end_list();
  }
  void add_frame(std::string_view name, std::string_view file, std::int64_t line) {
    pickle_.begin_dict();
    pickle_.add("name", name);
    pickle_.add("filename", file);
    pickle_.add("line", line);
    pickle_.end_dict();
  }

  void add_segment(Tier tier) {
    const Bytes size = end_of(tier);
    if (size == 0) return;
    std::vector<const Buffer*> blocks;
    Bytes used = 0;
    for (const BufferId id : staying_) {
      const Buffer& buffer = program_.buffer(id);
      if (buffer.tier != tier || !buffer.persistent) continue;
      blocks.push_back(&buffer);
      used += buffer.bytes;
    }
    std::ranges::sort(blocks, {}, &Buffer::offset);
    pickle_.begin_dict();
    pickle_.add("device", static_cast<std::int64_t>(tier));
    pickle_.add("address", std::int64_t{0});
    pickle_.add("total_size", size);
    pickle_.add("allocated_size", used);
    pickle_.add("active_size", used);
    pickle_.add("stream", std::int64_t{0});
    pickle_.add("segment_type", name_of(tier));
    pickle_.add("blocks");
    pickle_.begin_list();
    Bytes end = 0;
    for (const Buffer* buffer : blocks) {
      if (buffer->bytes == 0) continue;
      if (buffer->offset > end) add_block(nullptr, end, buffer->offset - end);
      add_block(buffer, buffer->offset, buffer->bytes);
      end = buffer->offset + buffer->bytes;
    }
    if (size > end) add_block(nullptr, end, size - end);
    pickle_.end_list();
    pickle_.end_dict();
  }
  void add_block(const Buffer* buffer, Bytes address, Bytes size) {
    pickle_.begin_dict();
    pickle_.add("address", address);
    pickle_.add("size", size);
    pickle_.add("requested_size", size);
    pickle_.add("state", buffer != nullptr ? "active_allocated" : "inactive");
    if (buffer != nullptr) {
      add_frames(*buffer, -1);
    } else {
      pickle_.add("frames");
      pickle_.begin_list();
      pickle_.end_list();
    }
    pickle_.end_dict();
  }

  void add_events(Tier tier) {
    pickle_.begin_list();
    for (const BufferId id : staying_) add_event(tier, "alloc", id, -1);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_.instructions.size()); ++i) {
      if (const auto found = begins_.find(i); found != begins_.end()) {
        for (const BufferId id : found->second) add_event(tier, "alloc", id, i);
      }
      if (const auto found = ends_.find(i); found != ends_.end()) {
        for (const BufferId id : found->second) add_event(tier, "free_completed", id, i);
      }
    }
    pickle_.end_list();
  }
  void add_event(Tier tier, std::string_view action, BufferId id, std::int32_t instruction) {
    const Buffer& buffer = program_.buffer(id);
    if (buffer.tier != tier || buffer.bytes == 0) return;
    pickle_.begin_dict();
    pickle_.add("action", action);
    pickle_.add("addr", buffer.offset);
    pickle_.add("size", buffer.bytes);
    pickle_.add("stream", std::int64_t{0});
    add_frames(buffer, instruction);
    pickle_.end_dict();
  }

  const StepProfile& profile_;
  const Program& program_;
  PickleWriter pickle_;
  std::vector<BufferId> staying_;                                ///< there when the step begins
  std::map<std::int32_t, std::vector<BufferId>> begins_, ends_;  ///< by instruction
};

}  // namespace

std::string make_memory_view(const StepProfile& profile) {
  return MemoryView(profile).make();
}

}  // namespace strata
