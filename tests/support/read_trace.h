// What a reader that knows nothing of Strata finds in a trace for Perfetto.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

namespace strata::test {

struct ReadTrace {
  struct SliceEvent {
    std::uint64_t nanoseconds = 0;
    bool begins = false;
    std::string name = {};                             ///< where it begins
    std::map<std::string, std::int64_t> numbers = {};  ///< annotations
  };
  std::map<std::uint64_t, std::string> processes, threads, counters, tracks;  ///< names by track
  std::map<std::uint64_t, std::vector<SliceEvent>> slices;  ///< by track, in the file's order
  std::map<std::uint64_t, std::int64_t> peaks;              ///< of counters
  std::map<std::uint64_t, int> flows;                       ///< how many ends each has

  explicit ReadTrace(const std::string& bytes) {
    protozero::pbf_reader trace(bytes);
    while (trace.next(1)) {
      protozero::pbf_reader packet = trace.get_message();
      std::uint64_t timestamp = 0;
      while (packet.next()) {
        if (packet.tag() == 8) {
          timestamp = packet.get_uint64();
        } else if (packet.tag() == 60) {
          read_track(packet.get_message());
        } else if (packet.tag() == 11) {
          read_event(packet.get_message(), timestamp);
        } else {
          packet.skip();
        }
      }
    }
  }

  /// The names of the slices of a track or thread of this name, in their order.
  std::vector<std::string> names_on(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& [track, events] : slices) {
      const auto thread = threads.find(track), plain = tracks.find(track);
      const bool is_it = (thread != threads.end() && thread->second == name) ||
                         (plain != tracks.end() && plain->second == name);
      if (!is_it) continue;
      for (const SliceEvent& event : events)
        if (event.begins) names.push_back(event.name);
    }
    return names;
  }

 private:
  void read_track(protozero::pbf_reader track) {
    std::uint64_t uuid = 0;
    std::string name;
    bool counts = false;
    while (track.next()) {
      switch (track.tag()) {
        case 1:
          uuid = track.get_uint64();
          break;
        case 2:
          name = track.get_string();
          break;
        case 3:
          processes[uuid] = text_of(track.get_message(), 6);
          break;
        case 4:
          threads[uuid] = text_of(track.get_message(), 5);
          break;
        case 8:
          counts = true;
          track.skip();
          break;
        default:
          track.skip();
      }
    }
    if (!name.empty()) (counts ? counters : tracks)[uuid] = name;
  }

  static std::string text_of(protozero::pbf_reader message, protozero::pbf_tag_type tag) {
    std::string text;
    while (message.next()) {
      if (message.tag() == tag) {
        text = message.get_string();
      } else {
        message.skip();
      }
    }
    return text;
  }

  static void read_annotation(protozero::pbf_reader annotation, SliceEvent& slice) {
    std::string name;
    while (annotation.next()) {
      if (annotation.tag() == 10) {
        name = annotation.get_string();
      } else if (annotation.tag() == 4) {
        slice.numbers[name] = annotation.get_int64();
      } else {
        annotation.skip();
      }
    }
  }

  void read_event(protozero::pbf_reader event, std::uint64_t timestamp) {
    SliceEvent slice{.nanoseconds = timestamp};
    std::uint64_t track = 0;
    std::int32_t type = 0;
    std::int64_t value = 0;
    while (event.next()) {
      switch (event.tag()) {
        case 4:
          read_annotation(event.get_message(), slice);
          break;
        case 9:
          type = event.get_int32();
          break;
        case 11:
          track = event.get_uint64();
          break;
        case 23:
          slice.name = event.get_string();
          break;
        case 30:
          value = event.get_int64();
          break;
        case 47:
        case 48:
          ++flows[event.get_fixed64()];
          break;
        default:
          event.skip();
      }
    }
    slice.begins = type == 1;
    if (type == 4) {
      peaks[track] = std::max(peaks[track], value);
    } else {
      slices[track].push_back(std::move(slice));
    }
  }
};

}  // namespace strata::test
