#include "engine/run/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "engine/run/checkpoint/safetensors.h"
#include "tests/base/expect_error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/base/overwrite.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/support.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::Fault;
using test::FaultyFileSystem;
using test::flip_bit;
using test::names_in;
using test::overwrite;
using test::quick;
using test::set_version;
using test::State;
using test::TemporaryFolder;

Progress full_progress_at(std::int64_t step) {
  return {.counters = {.step = step,
                       .updates = step - 1,
                       .skipped = 1,
                       .norm = 0.1,
                       .mean_norm = 0.2,
                       .spikes = 5,
                       .passed_over = 6,
                       .plateau = {.step = 10, .best = 1.0 / 3, .waited = 2, .cooldown = 3, .falls = 4}},
          .loss_scale = {.scale = 512, .finite_steps = 7},
          .sampler = {{"epoch", 2}, {"position", step}},
          .precision = DType::fp16,
          .data = {{"data.path", "a\xff.txt"}, {"data.packing", "none"}, {"data.validation", ""}}};
}

void save(const fs::path& path, const Model& model, State& state, std::int64_t step, std::int64_t keep = 2) {
  CheckpointStore(path, keep, quick()).save(model, full_progress_at(step), state.access());
}

class Checkpoint : public ::testing::Test {
 protected:
  /// What a restarted run finds; the state begins as rubbish.
  std::optional<LoadedCheckpoint> load() {
    loaded_.fill(-7);
    return CheckpointStore(path(), 2, quick()).load_newest(model_, loaded_.access());
  }
  const fs::path& path() const { return folder_.path(); }

  TemporaryFolder folder_;
  Model model_ = test::tiny_llama();
  State first_{model_, 1};
  State second_{model_, 5000};
  State loaded_{model_, 0};
};

TEST_F(Checkpoint, WhatIsSavedIsLoadedBitForBitWithZerosInThePadding) {
  save(path(), model_, first_, 100);
  const auto found = load();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->progress, full_progress_at(100));
  EXPECT_EQ(found->folder, path() / "step-00000100");
  EXPECT_TRUE(found->warnings.empty());
  EXPECT_EQ(loaded_, first_);
  EXPECT_EQ(names_in(found->folder), (std::set<std::string>{"exp_avg.safetensors", "exp_avg_sq.safetensors",
                                                            "manifest.json", "master.safetensors"}));
}

TEST_F(Checkpoint, TensorsAreStoredByHfNameAndShape) {
  save(path(), model_, first_, 100);
  const SafetensorsReader file(path() / "step-00000100" / "exp_avg.safetensors");
  const TensorSpec& tensor = model_.units[1].tensors[1];
  EXPECT_EQ(file.at(tensor.hf_name).shape, tensor.hf_shape);
  std::vector<float> stored(static_cast<std::size_t>(tensor.elements));
  file.read(tensor.hf_name, 0, stored);
  EXPECT_EQ(stored[0], first_.flat(1, key_of(Moment::exp_avg))[static_cast<std::size_t>(tensor.offset)]);
}

TEST_F(Checkpoint, NothingIsLoadedWhereNothingWasSaved) {
  EXPECT_FALSE(load());
  EXPECT_FALSE(CheckpointStore(path() / "none", 2, quick()).load_newest(model_, loaded_.access()));
}

TEST_F(Checkpoint, TheNewestIsLoadedAndOnlyTheNewestAreKept) {
  for (const std::int64_t step : {1, 2, 3}) save(path(), model_, step == 3 ? second_ : first_, step);
  EXPECT_EQ(names_in(path()), (std::set<std::string>{"step-00000002", "step-00000003"}));
  EXPECT_EQ(load()->progress.counters.step, 3);
  EXPECT_EQ(loaded_, second_);
}

TEST_F(Checkpoint, ARunThatGoesBackLoadsTheNewestThatIsWantedAndRemovesNewerOnes) {
  for (const std::int64_t step : {1, 2, 3, 4}) save(path(), model_, step == 2 ? second_ : first_, step, 4);
  CheckpointStore store(path(), 4, quick());
  const auto is_before = [](std::int64_t steps) {
    return [steps](std::int64_t step) { return step < steps; };
  };
  EXPECT_FALSE(store.go_back(model_, loaded_.access(), is_before(1)));
  EXPECT_EQ(names_in(path()).size(), 4U) << "nothing is lost for nothing";
  EXPECT_EQ(store.go_back(model_, loaded_.access(), is_before(3))->progress.counters.step, 2);
  EXPECT_EQ(loaded_, second_);
  EXPECT_EQ(store.newest(), path() / "step-00000002");
  EXPECT_EQ(names_in(path()), (std::set<std::string>{"step-00000001", "step-00000002"}));
  store.save(model_, full_progress_at(3), first_.access());
  EXPECT_EQ(load()->progress.counters.step, 3);
}

TEST_F(Checkpoint, AFreshRunsCheckpointIsNewerThanALaterStepOfTheRunBefore) {
  save(path(), model_, first_, 100);
  save(path(), model_, first_, 200);
  save(path(), model_, second_, 50);
  EXPECT_EQ(load()->progress.counters.step, 50);
  EXPECT_EQ(names_in(path()), (std::set<std::string>{"step-00000050", "step-00000200"}));
}

TEST_F(Checkpoint, TheSameStepAgainDoesNotTouchTheFirstUntilTheNewOneIsWhole) {
  save(path(), model_, first_, 100);
  save(path(), model_, second_, 100);
  EXPECT_EQ(names_in(path()), (std::set<std::string>{"step-00000100", "step-00000100-2"}));
  EXPECT_EQ(load()->folder, path() / "step-00000100-2");
  EXPECT_EQ(loaded_, second_);
}

TEST_F(Checkpoint, ForeignFoldersStay) {
  const std::set<std::string> foreign = {"step-by-step",       "step-100",       "step-00000100-",
                                         "step-00000100-x",    "step-00000100x", "step-00000100-x.tmp",
                                         "astep-00000100.tmp", "notes.tmp"};
  for (const std::string& name : foreign) fs::create_directory(path() / name);
  fs::create_directory(path() / "step-00000100-2.tmp");
  for (const std::int64_t step : {1, 2, 3, 4}) save(path(), model_, first_, step);
  CheckpointStore(path(), 2, quick()).remove_leftovers();
  std::set<std::string> expected = foreign;
  expected.insert({"step-00000003", "step-00000004"});
  EXPECT_EQ(names_in(path()), expected);
  EXPECT_EQ(load()->progress.counters.step, 4);
}

TEST_F(Checkpoint, ABitFlippedAnywhereInADataFileIsFoundAndTheOneBeforeIsUsed) {
  for (const StateKey key : keys_of(model_)) {
    const fs::path file = path() / "step-00000002" / (std::string(name_of(key)) + ".safetensors");
    save(path(), model_, first_, 1);
    save(path(), model_, second_, 2);
    const std::size_t size = fs::file_size(file);
    for (std::size_t byte = 0; byte < size; byte += 97) {
      flip_bit(file, byte, static_cast<int>(byte % 8));
      const auto found = load();
      EXPECT_EQ(found->progress.counters.step, 1);
      ASSERT_EQ(found->warnings.size(), 1U);
      EXPECT_THAT(found->warnings[0], ::testing::HasSubstr(file.string()));
      EXPECT_THAT(found->warnings[0], ::testing::HasSubstr("checksum"));
      EXPECT_EQ(loaded_, first_);
      flip_bit(file, byte, static_cast<int>(byte % 8));
    }
    EXPECT_EQ(load()->progress.counters.step, 2);
    for (const std::string& name : names_in(path())) fs::remove_all(path() / name);
  }
}

TEST_F(Checkpoint, AnyBitFlippedInTheManifestIsFound) {
  save(path(), model_, first_, 1);
  save(path(), model_, second_, 2);
  const fs::path file = path() / "step-00000002" / "manifest.json";
  const std::size_t bits = 8 * fs::file_size(file);
  for (std::size_t bit = 0; bit < bits; bit += 5) {
    flip_bit(file, bit / 8, static_cast<int>(bit % 8));
    expect_error<ConfigError>([&] { read_manifest(file); }, {file.string(), "damaged"});
    flip_bit(file, bit / 8, static_cast<int>(bit % 8));
  }
  flip_bit(file, 30);
  const auto found = load();
  EXPECT_EQ(found->progress.counters.step, 1);
  EXPECT_THAT(found->warnings.at(0), ::testing::HasSubstr(file.string()));
}

/// As a program that writes something else would: the checksum is right.
std::string with_checksum(nlohmann::json manifest) {
  manifest["manifest_xxh3"] = hex(hash_text(manifest.dump()));
  return manifest.dump(2) + "\n";
}

TEST_F(Checkpoint, FromBeforeThereWasAChoiceOfPrecisionIsOfBf16) {
  save(path(), model_, first_, 1);
  nlohmann::json manifest = nlohmann::json::parse(read_file(path() / "step-00000001" / "manifest.json"));
  EXPECT_EQ(manifest.at("precision"), "fp16");
  manifest.erase("manifest_xxh3");
  manifest.erase("precision");
  EXPECT_EQ(parse_manifest(with_checksum(manifest), "manifest.json").progress.precision, DType::bf16);
}

TEST_F(Checkpoint, AManifestOfWrongTypesOrTooDeepIsRefused) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& parts) {
    expect_error<ConfigError>([&] { parse_manifest(text, "manifest.json"); }, parts);
  };
  refused(with_checksum({{"format", "strata checkpoint"}, {"version", "three"}}),
          {"manifest.json: the manifest is malformed"});
  refused(with_checksum({{"format", "strata checkpoint"}, {"version", 3}}),
          {"manifest.json: the manifest is malformed"});
  save(path(), model_, first_, 1);
  nlohmann::json manifest = nlohmann::json::parse(read_file(path() / "step-00000001" / "manifest.json"));
  manifest.erase("manifest_xxh3");
  EXPECT_NO_THROW(parse_manifest(with_checksum(manifest), "manifest.json"));
  nlohmann::json other = manifest;
  other["precision"] = "fp4";
  refused(with_checksum(other), {"precision is \"fp4\""});
  other = manifest;
  other["update_rule"] = "sophia";
  refused(with_checksum(other), {"update_rule is \"sophia\""});
  manifest["files"]["../../elsewhere"] = {{"bytes", 1}, {"xxh3", ""}};
  refused(with_checksum(manifest), {"../../elsewhere is not a file of this folder"});
  refused("{\"files\": " + std::string(100'000, '['),
          {"manifest.json:1:", "nested more than 64 levels", "damaged"});
}

TEST_F(Checkpoint, ATruncatedOrMissingFileIsNamed) {
  save(path(), model_, first_, 1);
  for (const char* name :
       {"master.safetensors", "exp_avg.safetensors", "exp_avg_sq.safetensors", "manifest.json"}) {
    save(path(), model_, second_, 2);
    const fs::path file = path() / "step-00000002" / name;
    fs::resize_file(file, fs::file_size(file) - 1);
    EXPECT_THAT(load()->warnings.at(0), ::testing::HasSubstr(file.string()));
    fs::remove(file);
    const auto found = load();
    EXPECT_THAT(found->warnings.at(0),
                ::testing::AllOf(::testing::HasSubstr(file.string()), ::testing::HasSubstr("missing")));
    EXPECT_EQ(found->progress.counters.step, 1);
    EXPECT_EQ(loaded_, first_);
    fs::remove_all(path() / "step-00000002");
  }
}

TEST_F(Checkpoint, WhereAllAreDamagedTheRunDoesNotStartAnewByItself) {
  save(path(), model_, first_, 1);
  flip_bit(path() / "step-00000001" / "master.safetensors", 900);
  expect_error<ConfigError>([&] { load(); },
                            {"no checkpoint in " + path().string(), "master.safetensors", "--fresh"});
}

TEST_F(Checkpoint, TheStateIsUntouchedWhereNothingCanBeLoaded) {
  save(path(), model_, first_, 1);
  flip_bit(path() / "step-00000001" / "exp_avg_sq.safetensors", 900);
  State before = loaded_;
  before.fill(-7);
  EXPECT_THROW(load(), ConfigError);
  EXPECT_EQ(loaded_, before);
}

TEST_F(Checkpoint, AnotherModelIsRefusedWithWhatDiffers) {
  save(path(), model_, first_, 1);
  const Model other = test::tiny_llama(true, 16);
  State state(other, 0);
  expect_error<ConfigError>([&] { CheckpointStore(path(), 2, quick()).load_newest(other, state.access()); },
                            {(path() / "step-00000001").string(), "another model", "hidden 8 vs 16",
                             "tied head false vs true", "another checkpoint.path or --fresh"});
}

TEST_F(Checkpoint, AModelOfTheSameTensorsThatComputesSomethingElseIsRefused) {
  const Model model = test::tiny_granite(0.5), other = test::tiny_granite(0.25);
  State state(model, 0);
  save(path(), model, state, 1);
  EXPECT_TRUE(CheckpointStore(path(), 2, quick()).load_newest(model, state.access()));
  expect_error<ConfigError>([&] { CheckpointStore(path(), 2, quick()).load_newest(other, state.access()); },
                            {"another model", "residual_multiplier 0.5 vs 0.25"});
}

TEST_F(Checkpoint, AnotherPaddingTokenIsAnotherModelWhicheverHasNone) {
  Architecture with = model_.architecture;
  with.padding_token = 3;
  EXPECT_EQ(difference(with, model_.architecture), "pad_token_id 3 vs null");
  EXPECT_EQ(difference(model_.architecture, with), "pad_token_id null vs 3");
}

TEST_F(Checkpoint, ALongerContextMayGoOnFromAShorterOne) {
  save(path(), model_, first_, 1);
  model_.architecture.max_positions *= 2;
  model_.architecture.initializer_range = 1;
  EXPECT_TRUE(load());
  EXPECT_NE(difference(test::tiny_gpt2().architecture, model_.architecture), "");
}

TEST_F(Checkpoint, AnUnknownVersionIsNeitherSkippedNorOverwritten) {
  save(path(), model_, first_, 1);
  save(path(), model_, second_, 2);
  const fs::path file = path() / "step-00000002" / "manifest.json";
  for (const int version : {1, 99}) {
    set_version(file, version);
    expect_error<UnknownVersionError>([&] { load(); },
                                      {file.string(), "version " + std::to_string(version), "2 to 11"});
    expect_error<UnknownVersionError>([&] { save(path(), model_, first_, 3); }, {file.string()});
    EXPECT_TRUE(is_there(path() / "step-00000001"));
  }
}

TEST_F(Checkpoint, OneOfVersion2IsRead) {
  save(path(), model_, first_, 1);
  set_version(path() / "step-00000001" / "manifest.json", 2);
  ASSERT_TRUE(load());
  EXPECT_EQ(loaded_, first_);
}

TEST_F(Checkpoint, LeftoversOfADeadRunAreRemovedAtTheStart) {
  save(path(), model_, first_, 1);
  fs::create_directory(path() / "step-00000002.tmp");
  write_file(quick(), path() / "step-00000002.tmp" / "master.safetensors", "half");
  CheckpointStore(path(), 2, quick()).remove_leftovers();
  EXPECT_EQ(names_in(path()), (std::set<std::string>{"step-00000001"}));
}

TEST_F(Checkpoint, AnErrorOfTheStateItselfLeavesNothingBehind) {
  const StateAccess broken = access_in_memory(
      model_, [](std::size_t, StateKey) -> std::span<float> { throw DeviceError("no device"); });
  EXPECT_THROW(CheckpointStore(path(), 2, quick()).save(model_, full_progress_at(1), broken), DeviceError);
  EXPECT_TRUE(fs::is_empty(path()));
}

TEST_F(Checkpoint, AFullDiskIsOneSentenceAndTheOneBeforeIsNamedAsUntouched) {
  save(path(), model_, first_, 1);
  FaultyFileSystem full(8);
  expect_error<IoError>(
      [&] { CheckpointStore(path(), 2, full).save(model_, full_progress_at(2), second_.access()); },
      {"the checkpoint of step 2 was not saved",
       (path() / "step-00000001").string() + " before it is untouched", "injected failure"});
  EXPECT_EQ(names_in(path()), (std::set<std::string>{"step-00000001"}));
}

/// Fails the save of a second checkpoint at one operation after the other and restarts after each.
class CheckpointCrash : public Checkpoint, public ::testing::WithParamInterface<Fault> {};

// Invariant of state and checkpoints (CheckpointCrash.*): A crash loses no reported checkpoint. A run may be
// killed at any moment, or its disk may fill. The last reported checkpoint is whole, and the run resumes to
// the same bits.
TEST_P(CheckpointCrash, WhereverASaveDiesTheNewestReportedSavedIsLoadedBitForBit) {
  const auto companions = std::make_shared<const Companions>(
      Companions{{"config.json", "{}"}, {"additional_chat_templates/rag.jinja", "{{ messages }}"}});
  bool failed = true;
  int seen_first = 0;
  int seen_second = 0;
  for (int fail_at = 0; failed; ++fail_at) {
    for (const std::string& name : names_in(path())) fs::remove_all(path() / name);
    save(path(), model_, first_, 1, 1);
    FaultyFileSystem file_system(fail_at, GetParam());
    bool saved = false;
    try {
      CheckpointStore store(path(), 1, file_system);
      store.set_companions(companions);
      store.save(model_, full_progress_at(2), second_.access());
      saved = true;
    } catch (const IoError&) {
    }
    failed = file_system.operations() > fail_at;
    if (GetParam() == Fault::power_loss) file_system.lose_unsynced();

    CheckpointStore(path(), 1, quick()).remove_leftovers();
    for (const std::string& name : names_in(path())) EXPECT_FALSE(name.ends_with(".tmp")) << name;
    const auto found = load();
    ASSERT_TRUE(found) << fail_at;
    EXPECT_TRUE(found->warnings.empty()) << fail_at << ": " << found->warnings.front();
    const bool is_second = found->progress.counters.step == 2;
    EXPECT_EQ(loaded_, is_second ? second_ : first_) << fail_at;
    EXPECT_EQ(found->progress, full_progress_at(is_second ? 2 : 1));
    EXPECT_TRUE(is_second || !saved);
    if (is_second) {
      const Manifest manifest = read_manifest(found->folder / kManifestName);
      std::vector<std::string> warnings;
      EXPECT_EQ(stored_companions(found->folder, manifest, warnings).size(), companions->size()) << fail_at;
      EXPECT_TRUE(warnings.empty()) << fail_at << ": " << warnings.front();
    }
    (is_second ? seen_second : seen_first)++;
  }
  EXPECT_GT(seen_first, 40);  // a failure at every write, sync and rename of the save
  EXPECT_GT(seen_second, 1);  // and while the first one is removed
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointCrash,
                         ::testing::Values(Fault::error, Fault::kill, Fault::power_loss),
                         [](const auto& info) {
                           return info.param == Fault::error  ? "Error"
                                  : info.param == Fault::kill ? "Kill"
                                                              : "PowerLoss";
                         });

TEST_F(Checkpoint, AFailedSaveCleansUpAtOnce) {
  FaultyFileSystem counting;
  CheckpointStore(path(), 1, counting).save(model_, full_progress_at(1), first_.access());
  const int last = counting.operations() - 1;  // the sync of the folder after the rename
  for (int fail_at = 0; fail_at < last; ++fail_at) {
    FaultyFileSystem file_system(fail_at);
    EXPECT_THROW(CheckpointStore(path(), 1, file_system).save(model_, full_progress_at(2), second_.access()),
                 IoError);
    EXPECT_EQ(names_in(path()), (std::set<std::string>{"step-00000001"})) << fail_at;
  }
}

TEST(CheckpointWritable, AFolderIsMadeAndLeftEmpty) {
  const TemporaryFolder folder;
  check_checkpoint_writable(folder / "a" / "b");
  EXPECT_TRUE(fs::is_empty(folder / "a" / "b"));
}

TEST(CheckpointWritable, AFileInTheWayOrAFailingWriteIsAConfigError) {
  const TemporaryFolder folder;
  write_file(quick(), folder / "file", "x");
  expect_error<ConfigError>([&] { check_checkpoint_writable(folder / "file"); },
                            {"checkpoint.path " + (folder / "file").string() + " is not writable"});
  for (int fail_at = 0; fail_at < 4; ++fail_at) {
    FaultyFileSystem file_system(fail_at);
    expect_error<ConfigError>([&] { check_checkpoint_writable(folder / "out", file_system); },
                              {"is not writable", "injected failure"});
    EXPECT_TRUE(!is_there(folder / "out") || fs::is_empty(folder / "out"));
  }
}

TEST(StateHash, DependsOnEveryElementAndKindButNotOnPadding) {
  const Model model = test::tiny_llama();
  State state(model, 1);
  const std::string whole = state_hash(model, state.access());
  EXPECT_EQ(whole.size(), 16U);
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const StateKey key : keys_of(model)) {
      State changed = state;
      const TensorSpec& last = model.units[unit].tensors.back();
      changed.flat(unit, key)[static_cast<std::size_t>(last.offset + last.elements - 1)] += 1;
      EXPECT_NE(state_hash(model, changed.access()), whole);
    }
  }
  state.flat(0).back() = 9;  // padding
  EXPECT_EQ(state_hash(model, state.access()), whole);
}

}  // namespace
}  // namespace strata
