#include "base/missing_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

namespace strata {
namespace {

namespace fs = std::filesystem;

bool is_hub_word(std::string_view word) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !word.empty() && word.front() != '.' && std::ranges::all_of(word, fits);
}

/// Folders of people's own, whose names nobody has as an account of the hub.
bool is_own_folder(const std::string& word) {
  constexpr std::array<std::string_view, 12> kWords = {"models", "model",       "out",  "output",
                                                       "runs",   "checkpoints", "data", "outputs",
                                                       "saves",  "weights",     "home", "tmp"};
  std::error_code error;
  return std::ranges::find(kWords, word) != kWords.end() || fs::exists(word, error);
}

/// OWNER/NAME of the hub; empty if the path is none.
std::string hub_name(std::string path) {
  bool is_address = false;
  for (const std::string_view begin : {"https://huggingface.co/", "http://huggingface.co/", "huggingface.co/",
                                       "https://hf.co/", "hf.co/", "hf://"}) {
    if (!path.starts_with(begin)) continue;
    path.erase(0, begin.size());
    is_address = true;
  }
  const std::size_t slash = path.find('/');
  if (slash == std::string::npos) return "";
  const std::string owner = path.substr(0, slash);
  std::string name = path.substr(slash + 1);
  if (is_address) name.resize(std::min(name.find('/'), name.size()));
  if (name.ends_with('/')) name.pop_back();
  const bool is_name = is_hub_word(owner) && is_hub_word(name) && (is_address || !is_own_folder(owner));
  return is_name ? owner + "/" + name : "";
}

std::string in_small_letters(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

/// What to do with a file of weights that no folder stands for; empty if it is none.
std::string advice_on_weights(const fs::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".gguf")
    return "; GGUF is not read: name the model's Hugging Face folder, with config.json and model.safetensors";
  if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt")
    return "; weights of PyTorch are not read: load them with transformers, and name the folder that "
           "save_pretrained(FOLDER) writes";
  if (extension == ".safetensors") return "; name the folder that has this file beside its config.json";
  return "";
}

}  // namespace

std::string advice_on_missing(const fs::path& path, std::string_view key) {
  std::error_code error;
  const fs::path current = fs::current_path(error);
  if (path.is_absolute() || error) return "";
  return fmt::format("; looked for in {}, the current directory{}", current.string(),
                     key.empty() ? "" : " (${RUN_FILE_DIR}/… begins beside the run file)");
}

std::string advice_on_missing_model(const fs::path& path, std::string_view key) {
  if (std::string advice = advice_on_weights(path); !advice.empty()) return advice;
  if (const std::string name = hub_name(path.string()); !name.empty()) {
    const std::string folder = "models/" + in_small_letters(name.substr(name.find('/') + 1));
    return fmt::format(
        "; if it is a model of the Hugging Face hub, run  hf download {} --local-dir {}  and {} {}", name,
        folder, key.empty() ? "name" : fmt::format("set  {}:", key), folder);
  }
  return advice_on_missing(path, key);
}

}  // namespace strata
