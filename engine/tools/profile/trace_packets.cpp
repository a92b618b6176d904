#include "engine/tools/profile/trace_packets.h"

#include <protozero/pbf_writer.hpp>

namespace strata {
namespace {

// Numbers of fields and values, from perfetto's protos/perfetto/trace/.
namespace trace {
constexpr protozero::pbf_tag_type kPacket = 1;
}
namespace packet {
constexpr protozero::pbf_tag_type kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kSequenceFlags = 13,
                                  kTrackDescriptor = 60;
constexpr std::uint32_t kStateCleared = 1;
}  // namespace packet
namespace descriptor {
constexpr protozero::pbf_tag_type kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8;
constexpr protozero::pbf_tag_type kPid = 1, kProcessName = 6, kThreadPid = 1, kThreadId = 2, kThreadName = 5;
constexpr protozero::pbf_tag_type kCounterUnit = 3;
constexpr std::int32_t kBytesUnit = 3;
}  // namespace descriptor
namespace event {
constexpr protozero::pbf_tag_type kAnnotation = 4, kType = 9, kTrack = 11, kName = 23, kCounterValue = 30,
                                  kFlows = 47, kEndingFlows = 48;
constexpr std::int32_t kBegin = 1, kEnd = 2, kCounterType = 4;
}  // namespace event
namespace annotation {
constexpr protozero::pbf_tag_type kName = 10, kInt = 4, kDouble = 5, kString = 6;
}

protozero::data_view view(std::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

template <typename Add>
void SliceFields::add_annotation(std::string_view name, const Add& add) {
  protozero::pbf_writer fields(fields_);
  protozero::pbf_writer one(fields, event::kAnnotation);
  one.add_string(annotation::kName, view(name));
  add(one);
}

void SliceFields::name(std::string_view name) {
  protozero::pbf_writer(fields_).add_string(event::kName, view(name));
}

void SliceFields::annotate(std::string_view name, std::int64_t value) {
  add_annotation(name, [&](protozero::pbf_writer& one) { one.add_int64(annotation::kInt, value); });
}

void SliceFields::annotate(std::string_view name, double value) {
  add_annotation(name, [&](protozero::pbf_writer& one) { one.add_double(annotation::kDouble, value); });
}

void SliceFields::annotate(std::string_view name, std::string_view value) {
  add_annotation(name, [&](protozero::pbf_writer& one) { one.add_string(annotation::kString, view(value)); });
}

void SliceFields::begin_flow(std::uint64_t flow) {
  protozero::pbf_writer(fields_).add_fixed64(event::kFlows, flow);
}

void SliceFields::end_flow(std::uint64_t flow) {
  protozero::pbf_writer(fields_).add_fixed64(event::kEndingFlows, flow);
}

void TracePackets::begin() {
  protozero::pbf_writer trace(trace_);
  protozero::pbf_writer first(trace, trace::kPacket);
  first.add_uint32(packet::kSequence, writer_);
  first.add_uint32(packet::kSequenceFlags, packet::kStateCleared);
}

template <typename Fill>
void TracePackets::add_descriptor(const Fill& fill) {
  protozero::pbf_writer trace(trace_);
  protozero::pbf_writer packet(trace, trace::kPacket);
  packet.add_uint32(packet::kSequence, writer_);
  protozero::pbf_writer track(packet, packet::kTrackDescriptor);
  fill(track);
}

void TracePackets::add_process(std::uint64_t track, std::int32_t pid, std::string_view name) {
  add_descriptor([&](protozero::pbf_writer& descriptor) {
    descriptor.add_uint64(descriptor::kUuid, track);
    protozero::pbf_writer process(descriptor, descriptor::kProcess);
    process.add_int32(descriptor::kPid, pid);
    process.add_string(descriptor::kProcessName, view(name));
  });
}

void TracePackets::add_thread(std::uint64_t track, std::int32_t pid, std::int32_t tid,
                              std::string_view name) {
  add_descriptor([&](protozero::pbf_writer& descriptor) {
    descriptor.add_uint64(descriptor::kUuid, track);
    protozero::pbf_writer thread(descriptor, descriptor::kThread);
    thread.add_int32(descriptor::kThreadPid, pid);
    thread.add_int32(descriptor::kThreadId, tid);
    thread.add_string(descriptor::kThreadName, view(name));
  });
}

void TracePackets::add_track(std::uint64_t track, std::uint64_t parent, std::string_view name) {
  add_descriptor([&](protozero::pbf_writer& descriptor) {
    descriptor.add_uint64(descriptor::kUuid, track);
    descriptor.add_uint64(descriptor::kParent, parent);
    descriptor.add_string(descriptor::kName, view(name));
  });
}

void TracePackets::add_counter(std::uint64_t track, std::uint64_t parent, std::string_view name) {
  add_descriptor([&](protozero::pbf_writer& descriptor) {
    descriptor.add_uint64(descriptor::kUuid, track);
    descriptor.add_uint64(descriptor::kParent, parent);
    descriptor.add_string(descriptor::kName, view(name));
    protozero::pbf_writer counter(descriptor, descriptor::kCounter);
    counter.add_int32(descriptor::kCounterUnit, descriptor::kBytesUnit);
  });
}

/// Makes a packet of what event_ has. Messages within one another would be moved once their lengths are
/// known.
void TracePackets::add_event(std::int64_t nanoseconds) {
  packet_.clear();
  protozero::pbf_writer packet(packet_);
  packet.add_uint64(packet::kTimestamp, static_cast<std::uint64_t>(nanoseconds));
  packet.add_uint32(packet::kSequence, writer_);
  packet.add_message(packet::kTrackEvent, event_);
  protozero::pbf_writer(trace_).add_message(trace::kPacket, packet_);
}

void TracePackets::begin_slice(std::int64_t nanoseconds, std::uint64_t track, std::string_view fields) {
  event_.clear();
  protozero::pbf_writer event(event_);
  event.add_int32(event::kType, event::kBegin);
  event.add_uint64(event::kTrack, track);
  event_ += fields;
  add_event(nanoseconds);
}

void TracePackets::end_slice(std::int64_t nanoseconds, std::uint64_t track) {
  event_.clear();
  protozero::pbf_writer event(event_);
  event.add_int32(event::kType, event::kEnd);
  event.add_uint64(event::kTrack, track);
  add_event(nanoseconds);
}

void TracePackets::count(std::int64_t nanoseconds, std::uint64_t track, std::int64_t bytes) {
  event_.clear();
  protozero::pbf_writer event(event_);
  event.add_int32(event::kType, event::kCounterType);
  event.add_uint64(event::kTrack, track);
  event.add_int64(event::kCounterValue, bytes);
  add_event(nanoseconds);
}

}  // namespace strata
