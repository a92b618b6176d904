#include "engine/run/execute/choose_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/watchdog.h"
#include "collectives/agreement.h"
#include "engine/device/product_table.h"
#include "engine/model/model.h"
#include "engine/plan/lower/run_scratch.h"
#include "engine/run/execute/measure.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

std::string refusal(const std::string& path, const std::string& why) {
  return fmt::format(
      "device.product_table: {}: {}; remove the file to have products timed again, which may change the "
      "last bits of what runs compute",
      path, why);
}

/// Empty if there is no file.
ProductTable read_table(const fs::path& file, const std::string& path) {
  std::string text;
  try {
    text = read_file(file);
  } catch (const SystemError& error) {
    if (error.is_missing()) return {};
    throw;
  }
  try {
    return parse_product_table(text);
  } catch (const DamageError& error) {
    throw ConfigError(refusal(path, error.what()));
  }
}

/// Waits until no other process has it.
FolderLock lock_table(const fs::path& folder, const std::string& name) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  std::string owner;
  std::optional<WatchedWait> wait;
  for (;;) {
    try {
      return {Folder::named(folder), name};
    } catch (const FolderInUseError& error) {
      if (!wait || owner != error.owner) {
        owner = error.owner;
        wait.emplace([owner] { return "products to be timed by " + owner; });
      }
    }
    std::this_thread::sleep_for(kPause);
  }
}

bool has_all(const ProductTable& table, const ProductChooser& chooser) {
  return std::ranges::all_of(chooser.names(),
                             [&](const std::string& name) { return table.find(name) != nullptr; });
}

/// Adds what the table lacks. Returns how many that were.
std::int64_t time_products(Device& device, ProductChooser& chooser, DType numbers, ProductTable& table) {
  std::int64_t timed = 0;
  for (std::size_t i = 0; i < chooser.names().size(); ++i) {
    if (table.find(chooser.names()[i]) != nullptr) continue;
    const std::unique_ptr<DeviceMemory> memory = device.allocate(chooser.bytes(i));
    fill_with_numbers(device, memory->data(), chooser.bytes(i), numbers);
    table.algorithms.emplace(chooser.names()[i], chooser.fastest(i, memory->data()));
    ++timed;
  }
  return timed;
}

/// The table with all that the chooser's products need.
ProductTable complete_table(Device& device, const std::string& path, ProductChooser& chooser, DType numbers,
                            std::int64_t& timed) {
  const fs::path file = fs::weakly_canonical(path);
  ProductTable table = read_table(file, path);
  if (has_all(table, chooser)) return table;
  const FolderLock lock = lock_table(file.parent_path(), fmt::format(".{}.lock", file.filename().string()));
  table = read_table(file, path);
  timed = time_products(device, chooser, numbers, table);
  if (timed > 0) replace_file(FileSystem::real(), file, print(table));
  return table;
}

}  // namespace

std::string ChosenProducts::describe() const {
  if (table.empty()) return "";
  return fmt::format("{} by {}, {}; hash {}", products, table,
                     timed == 0 ? std::string("none of them timed now")
                                : fmt::format("{} of them timed now in {:.1f} s", timed, seconds),
                     hash);
}

ChosenProducts choose_products(Device& device, const std::string& path, std::span<const ProductsOf> models,
                               Communicator* ranks) {
  if (path.empty() || models.empty()) return {};
  ChosenProducts chosen;
  std::unique_ptr<ProductChooser> chooser;
  ProductTable used;
  const std::vector<std::string> texts = texts_of_ranks(ranks, [&] {
    chooser = device.product_chooser([&](Kernels& kernels) {
      for (const ProductsOf& of : models) make_calls(kernels, of.model, of.precision, of.microbatch);
    });
    if (!chooser) return print(used);
    chosen.table = path;
    chosen.seconds = seconds_on_host([&] {
      const ProductTable table =
          complete_table(device, path, *chooser, models.front().precision, chosen.timed);
      for (const std::string& name : chooser->names()) used.algorithms.emplace(name, *table.find(name));
    });
    return print(used);
  });
  if (!chooser) return {};
  ProductTable of_all;
  for (const std::string& text : texts) of_all.add(parse_product_table(text));
  on_every_rank(ranks, [&] {
    for (std::size_t i = 0; i < chooser->names().size(); ++i) {
      const std::string& name = chooser->names()[i];
      if (!chooser->use(i, *of_all.find(name)))
        throw ConfigError(refusal(path, fmt::format("the library does not take its algorithm for {}", name)));
    }
  });
  chosen.products = std::ssize(chooser->names());
  chosen.hash = hash_of(of_all);
  return chosen;
}

}  // namespace strata
