#include "engine/tools/report/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <boost/crc.hpp>
#include <charconv>
#include <chrono>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "base/error.h"
#include "base/folder.h"
#include "base/host_name.h"
#include "base/nth.h"
#include "base/watchdog.h"

namespace strata {
namespace {

static_assert(std::endian::native == std::endian::little, "records have their numbers in this order");

// Numbers of fields and values, from tensorflow/core/util/event.proto and framework/summary.proto.
namespace event {
constexpr protozero::pbf_tag_type kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace summary {
constexpr protozero::pbf_tag_type kValue = 1, kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
constexpr protozero::pbf_tag_type kPluginData = 1, kPluginName = 1;  // of metadata
}  // namespace summary
// From tensorflow/core/framework/tensor.proto, tensor_shape.proto and types.proto.
namespace tensor {
constexpr protozero::pbf_tag_type kType = 1, kShape = 2, kString = 8, kDimension = 2, kSize = 1;
constexpr std::int32_t kStringType = 7;
}  // namespace tensor
namespace session_log {
constexpr protozero::pbf_tag_type kStatus = 1;
constexpr std::int32_t kStart = 1;
}  // namespace session_log

constexpr const char* kVersion = "brain.Event:2";  // readers heed session logs since this one
constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::size_t kDigits = 10;

/// A record is its length (8 bytes), the length's checksum (4), the event, and the event's checksum (4).
constexpr std::int64_t kHead = 12, kChecksum = 4;

/// CRC-32C, masked, since checksums of data that has checksums in it would mean little.
std::uint32_t checksum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(crc.checksum(), 15) + 0xA282EAD8;
}

template <typename Number>
std::string bytes_of(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

template <typename Number>
Number number_in(std::string_view bytes) {
  Number number;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <typename Fill>
std::string make_event(const Fill& fill) {
  std::string bytes;
  protozero::pbf_writer event(bytes);
  event.add_double(event::kWallTime, wall_seconds());
  fill(event);
  return bytes;
}

/// The number behind the prefix; 0 if there is none of the usual length.
std::int64_t number_of(std::string_view name) {
  std::int64_t number = 0;
  const std::string_view digits = name.substr(kPrefix.size(), kDigits);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + kDigits ? number : 0;
}

template <typename Visit>
void for_each_event(const FileReader& file, const Visit& visit) {
  std::string bytes;
  const auto read = [&](std::int64_t offset, std::int64_t count) {
    resize(bytes, count);
    file.read(offset, std::as_writable_bytes(std::span(bytes)));
  };
  for (std::int64_t at = 0; file.size() - at >= kHead + kChecksum;) {
    read(at, kHead);
    const auto length = number_in<std::uint64_t>(bytes);
    if (checksum(std::string_view(bytes).substr(0, 8)) != number_in<std::uint32_t>(bytes.substr(8))) return;
    if (length > static_cast<std::uint64_t>(file.size() - at - kHead - kChecksum)) return;
    const auto count = static_cast<std::int64_t>(length);
    read(at + kHead, count + kChecksum);
    const std::string_view event = std::string_view(bytes).substr(0, length);
    if (checksum(event) != number_in<std::uint32_t>(bytes.substr(length))) return;
    visit(event);
    at += kHead + count + kChecksum;
  }
}

struct ReadEvent {
  std::int64_t step = 0;
  bool has_tag = false, is_start = false;

  ReadEvent(std::string_view bytes, std::string_view tag) {
    protozero::pbf_reader event(bytes.data(), bytes.size());
    while (event.next()) {
      if (event.tag_and_type() == protozero::tag_and_type(event::kStep, protozero::pbf_wire_type::varint)) {
        step = event.get_int64();
      } else if (event.tag_and_type() ==
                 protozero::tag_and_type(event::kSummary, protozero::pbf_wire_type::length_delimited)) {
        read_summary(event.get_message(), tag);
      } else if (event.tag_and_type() ==
                 protozero::tag_and_type(event::kSessionLog, protozero::pbf_wire_type::length_delimited)) {
        protozero::pbf_reader log = event.get_message();
        while (log.next(session_log::kStatus, protozero::pbf_wire_type::varint))
          is_start = log.get_int32() == session_log::kStart;
      } else {
        event.skip();
      }
    }
  }

 private:
  void read_summary(protozero::pbf_reader summary, std::string_view tag) {
    while (summary.next(summary::kValue, protozero::pbf_wire_type::length_delimited)) {
      protozero::pbf_reader value = summary.get_message();
      while (value.next(summary::kTag, protozero::pbf_wire_type::length_delimited))
        has_tag |= value.get_string() == tag;
    }
  }
};

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder) : descriptor_(-1) {
  const WatchedWait wait([&folder] { return "making an event file in " + folder.string(); });
  FileSystem::real().create_folders(folder);
  const Folder open = Folder::named(folder);
  auto number = static_cast<std::int64_t>(wall_seconds());
  for (const std::string& name : open.names()) {
    if (!name.starts_with(kPrefix)) continue;
    older_.push_back(folder / name);
    number = std::max(number, number_of(name) + 1);  // also if it was made in this second, or clocks differ
  }
  const std::string name = fmt::format("{}{:0{}}.{}.{}", kPrefix, number, kDigits, host_name(), ::getpid());
  path_ = folder / name;
  descriptor_ = open.open_file(name, O_WRONLY | O_CREAT | O_EXCL);
  write(make_event([](protozero::pbf_writer& event) { event.add_string(event::kFileVersion, kVersion); }));
}

void EventFile::start(std::int64_t step) {
  write(make_event([&](protozero::pbf_writer& event) {
    event.add_int64(event::kStep, step);
    protozero::pbf_writer log(event, event::kSessionLog);
    log.add_enum(session_log::kStatus, session_log::kStart);
  }));
}

void EventFile::add(std::int64_t step, std::span<const Scalar> scalars) {
  write(make_event([&](protozero::pbf_writer& event) {
    event.add_int64(event::kStep, step);
    protozero::pbf_writer summary(event, event::kSummary);
    for (const Scalar& scalar : scalars) {
      protozero::pbf_writer value(summary, summary::kValue);
      value.add_string(summary::kTag, scalar.tag);
      value.add_float(summary::kSimpleValue, scalar.value);
    }
  }));
}

void EventFile::add(std::int64_t step, std::span<const TextNote> notes) {
  write(make_event([&](protozero::pbf_writer& event) {
    event.add_int64(event::kStep, step);
    protozero::pbf_writer summary(event, event::kSummary);
    for (const TextNote& note : notes) {
      protozero::pbf_writer value(summary, summary::kValue);
      value.add_string(summary::kTag, note.tag);
      {
        protozero::pbf_writer list(value, summary::kTensor);
        list.add_enum(tensor::kType, tensor::kStringType);
        {
          protozero::pbf_writer shape(list, tensor::kShape);
          protozero::pbf_writer dimension(shape, tensor::kDimension);
          dimension.add_int64(tensor::kSize, 1);
        }
        list.add_bytes(tensor::kString, note.text);
      }
      protozero::pbf_writer metadata(value, summary::kMetadata);
      protozero::pbf_writer plugin(metadata, summary::kPluginData);
      plugin.add_string(summary::kPluginName, "text");
    }
  }));
}

/// In one piece, so that what kills the process seldom tears a record.
void EventFile::write(std::string_view event) {
  const std::string record = event_record(event);
  const WatchedWait wait([this] { return "writing " + path_.string(); });
  FileSystem::real().write(descriptor_.get(), std::as_bytes(std::span(record)), path_);
}

bool EventFile::is_in_older_files(std::string_view tag, std::int64_t step) const {
  bool is_there = false;
  for (const std::filesystem::path& path : older_) {
    try {
      is_there = has_value(FileReader(path), tag, step, is_there);
    } catch (const IoError&) {  // readers do without it, too
    }
  }
  return is_there;
}

std::string event_record(std::string_view event) {
  std::string record = bytes_of(std::uint64_t{event.size()});
  record += bytes_of(checksum(record));
  record += event;
  record += bytes_of(checksum(event));
  return record;
}

bool has_value(const FileReader& file, std::string_view tag, std::int64_t step, bool was_there) {
  bool is_there = was_there;
  for_each_event(file, [&](std::string_view bytes) {
    try {
      const ReadEvent event(bytes, tag);
      if (event.is_start && event.step <= step) is_there = false;
      if (event.has_tag && event.step == step) is_there = true;
    } catch (const protozero::exception&) {  // a record of no event
    }
  });
  return is_there;
}

}  // namespace strata
