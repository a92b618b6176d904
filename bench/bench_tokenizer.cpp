// How fast a tokenizer encodes: bench_tokenizer TOKENIZER.json DOCUMENTS [IDS]
// Documents are separated by zero bytes. One thread encodes them all, and its time on a core counts; IDS gets
// each document's number of ids and its ids, as int32, for tests/text/compare_tokenizers.py.
#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "engine/config/choices.h"
#include "engine/input/text/tokenizer.h"

namespace strata::text {
namespace {

/// This thread's time on a core, so what others do on the machine does not count.
double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void run(const char* tokenizer_file, const char* documents_file, const char* ids_file) {
  const double begin = seconds_now();
  const Tokenizer tokenizer = Tokenizer::read(tokenizer_file);
  const double read_seconds = seconds_now() - begin;
  const std::string text = read_file(documents_file);
  std::vector<std::int32_t> ids, out;
  double seconds = 0;
  std::size_t count = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view document = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(document.size() + 1, rest.size()));
    ids.clear();
    const double encode_begin = seconds_now();
    tokenizer.encode(document, ids, AddSpecial::no);
    seconds += seconds_now() - encode_begin;
    count += ids.size();
    out.push_back(static_cast<std::int32_t>(ids.size()));
    out.insert(out.end(), ids.begin(), ids.end());
  }
  if (ids_file != nullptr) {
    std::ofstream(ids_file, std::ios::binary)
        .write(reinterpret_cast<const char*>(out.data()), static_cast<std::streamsize>(4 * out.size()));
  }
  fmt::print("{:.1f} MB in {:.2f} s: {:.1f} MB/s, {} ids; the file was read in {:.2f} s\n",
             static_cast<double>(text.size()) / 1e6, seconds,
             static_cast<double>(text.size()) / 1e6 / seconds, count, read_seconds);
}

}  // namespace
}  // namespace strata::text

int main(int count, char** arguments) {
  if (count < 3) {
    fmt::print(stderr, "bench_tokenizer TOKENIZER.json DOCUMENTS [IDS]\n");
    return 2;
  }
  try {
    strata::text::run(arguments[1], arguments[2], count > 3 ? arguments[3] : nullptr);
  } catch (const strata::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
