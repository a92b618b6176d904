// The packets that a trace for Perfetto is made of: its TrackEvent protobuf. A trace is a row of packets, so
// more may be appended to a file of them at any time, and files may be joined one behind another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

/// What is said of a slice where it begins: its fields of a TrackEvent, appended to a text.
class SliceFields {
 public:
  explicit SliceFields(std::string& fields) : fields_(fields) {}

  void name(std::string_view name);
  void annotate(std::string_view name, std::int64_t value);
  void annotate(std::string_view name, double value);
  void annotate(std::string_view name, std::string_view value);
  /// An arrow of this number begins here, or ends.
  void begin_flow(std::uint64_t flow);
  void end_flow(std::uint64_t flow);

 private:
  template <typename Add>
  void add_annotation(std::string_view name, const Add& add);

  std::string& fields_;
};

/// Appends packets to a text. Tracks have numbers that the caller chooses, unique in the trace.
class TracePackets {
 public:
  /// Packets of one writer have one number, more than 0. REQUIRES: `trace` outlives this.
  explicit TracePackets(std::string& trace, std::uint32_t writer = 1) : trace_(trace), writer_(writer) {}

  /// The first packet of a writer.
  void begin();
  void add_process(std::uint64_t track, std::int32_t pid, std::string_view name);
  void add_thread(std::uint64_t track, std::int32_t pid, std::int32_t tid, std::string_view name);
  /// For slices.
  void add_track(std::uint64_t track, std::uint64_t parent, std::string_view name);
  /// For numbers of bytes.
  void add_counter(std::uint64_t track, std::uint64_t parent, std::string_view name);

  void begin_slice(std::int64_t nanoseconds, std::uint64_t track, std::string_view fields);
  void end_slice(std::int64_t nanoseconds, std::uint64_t track);
  void count(std::int64_t nanoseconds, std::uint64_t track, std::int64_t bytes);

 private:
  template <typename Fill>
  void add_descriptor(const Fill& fill);
  void add_event(std::int64_t nanoseconds);

  std::string& trace_;
  std::uint32_t writer_;
  std::string packet_, event_;  ///< in the making
};

}  // namespace strata
