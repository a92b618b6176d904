#include "engine/tools/cli/version.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/library_version.h"
#include "base/vector_target.h"
#include "collectives/versions.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/device/cpu/onednn_version.h"
#include "engine/tools/cli/build_facts.h"
#include "offload/disk_curve.h"
#include "offload/uring_version.h"
#ifdef STRATA_CUDA
#include "engine/device/cuda/versions.h"
#endif

namespace strata {
namespace {

std::string line(std::string_view name, std::string_view text) {
  return fmt::format("{:<12} {}\n", name, text);
}

std::string line(const LibraryVersion& library) {
  return line(library.name, fmt::format("built with {}; found here: {}", library.built, library.found));
}

std::string commit_line(const BuildFacts& facts) {
  if (facts.commit.empty()) return line("commit", "unknown: built from a tree without git's history");
  return line("commit", fmt::format("{} of {}{}", facts.commit, facts.date,
                                    facts.dirty ? ", with changes that are not committed" : ""));
}

std::string_view compiler() {
#ifdef __clang__
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

std::string vector_line() {
  return line("vector code", CpuDevice::vector_code() +
                                 (vector_target_is_capped() ? ", capped by STRATA_VECTOR_TARGET" : ""));
}

/// Those of NVIDIA.
std::string gpu_lines() {
  [[maybe_unused]] constexpr std::string_view kMissing = "not built in";
#ifdef STRATA_CUDA
  std::string lines = line(cuda_version()) + line(cublaslt_version());
#else
  std::string lines = line("CUDA", kMissing);
#endif
#ifdef STRATA_CUDNN
  lines += line(cudnn_version());
#else
  lines += line("cuDNN", kMissing);
#endif
#ifdef STRATA_NCCL
  lines += line(nccl_version());
#else
  lines += line("NCCL", kMissing);
#endif
  return lines;
}

std::string io_uring_line() {
  const std::string reason = why_no_io_uring();
  return line("io_uring", reason.empty() ? "works here" : "does not work here: " + reason);
}

}  // namespace

std::string version_text() {
  const BuildFacts& facts = build_facts();
  const std::string commit =
      facts.commit.empty() ? "" : fmt::format(" ({}{})", facts.commit, facts.dirty ? ", changed" : "");
  std::string text = fmt::format("strata {}{}\n", facts.version, commit) + commit_line(facts);
  text += line("build", fmt::format("{}, {}", facts.type, compiler()));
  text += vector_line() + gpu_lines();
  text += line(mpi_version()) + line(onednn_version()) + line(uring_version()) + io_uring_line();
  text.pop_back();  // CLI11 ends the last line
  return text;
}

}  // namespace strata
