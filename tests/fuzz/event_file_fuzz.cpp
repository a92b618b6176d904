// An event file that another process left: torn, damaged, or of somebody else; also a record of any bytes.
#include "base/file.h"
#include "engine/tools/report/event_file.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

void read_event_file(std::string_view input) {
  for (const std::string& content : {std::string(input), event_record(input)}) {
    const FileReader file(write("events.out.tfevents.1", content));
    for (const std::int64_t step : {0, 4}) {
      for (const bool was_there : {false, true}) has_value(file, "train/validation_loss", step, was_there);
    }
  }
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(event_file, strata::fuzz::read_event_file)
