#include "engine/config/model_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace strata {
namespace {

constexpr std::size_t kLongestName = 100;

bool fits_a_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._=,+-").find(c) != std::string_view::npos;
}

/// The last `count` words of a path between dots; all if it has no more.
std::string_view tail(std::string_view path, std::size_t count) {
  std::size_t end = path.size();
  for (; count > 0; --count) {
    const std::size_t dot = path.substr(0, end).rfind('.');
    if (dot == std::string_view::npos) return path;
    end = dot;
  }
  return path.substr(end + 1);
}

}  // namespace

std::string check_name(const std::string& name) {
  if (name.size() > kLongestName) return fmt::format("is longer than {} characters", kLongestName);
  return !name.empty() && name != "." && name != ".." && std::ranges::all_of(name, fits_a_name)
             ? ""
             : "is not made of letters, digits and . _ = , + -, as the names of files";
}

std::string as_name(const std::string& text) {
  std::string name = text;
  std::ranges::replace_if(
      name, [](char c) { return !fits_a_name(c); }, '_');
  return name;
}

std::string name_of_file(const std::string& path) {
  const std::filesystem::path file = std::filesystem::path(path).filename();
  const std::string extension = file.extension().string();
  const bool known = extension == ".yaml" || extension == ".yml" || extension == ".json";
  return as_name((known ? file.stem() : file).string());
}

std::string value_in_name(const YAML::Node& value) {
  if (value.IsScalar()) return as_name(value.Scalar());
  std::vector<std::string> parts;
  parts.reserve(value.size());
  for (const auto& part : value) {
    parts.push_back(value.IsMap() ? value_in_name(part.first) + "=" + value_in_name(part.second)
                                  : value_in_name(part));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

std::vector<std::string> last_words(const std::vector<std::string>& paths) {
  std::vector<std::string> result;
  result.reserve(paths.size());
  for (const std::string& path : paths) {
    const auto is_of_another = [&](std::size_t count) {
      return std::ranges::any_of(paths, [&](const std::string& other) {
        return &other != &path && tail(other, count) == tail(path, count);
      });
    };
    std::size_t count = 1;
    while (tail(path, count) != path && is_of_another(count)) ++count;
    result.push_back(as_name(std::string(tail(path, count))));
  }
  return result;
}

std::string file_of_model(const std::string& file, const std::string& name) {
  const std::filesystem::path path(file);
  return file.empty() ? ""
                      : (path.parent_path() / path.stem()).string() + "." + name + path.extension().string();
}

std::string default_checkpoint_folder(const std::string& run_file) {
  return "out/" + name_of_file(run_file);
}

std::string folder_of_model(const std::string& folder, const std::string& name) {
  return folder.empty() ? "" : (std::filesystem::path(folder) / name).string();
}

}  // namespace strata
