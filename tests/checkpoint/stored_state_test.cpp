#include "engine/run/checkpoint/stored_state.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/expect_error.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/support.h"

namespace strata {
namespace {

using test::expect_error;
using test::quick;
using test::TemporaryFolder;

/// Checkpoints of two ranks. The first may be made to hold other tensors than it should.
class StoredStateOf : public ::testing::Test {
 protected:
  using Edit = std::function<void(std::vector<TensorToWrite>&)>;

  StoredState open(const Edit& edit = [](auto&) {}) {
    manifest_.files.clear();
    for (const StateKey key : keys_of(model_)) {
      for (const int rank : {0, 1}) {
        std::vector<TensorToWrite> tensors;
        for (const Unit& unit : model_.units) {
          for (TensorToWrite& tensor :
               stored_tensors(model_, unit, key, {rank * unit.elements / 2, unit.elements / 2}))
            tensors.push_back(std::move(tensor));
        }
        if (rank == 0 && key == key_of(Moment::exp_avg)) edit(tensors);
        const std::string name = file_name(key, rank, 2);
        std::filesystem::remove(folder_ / name);
        SafetensorsWriter file(quick(), folder_ / name, DType::fp32, tensors);
        for (const TensorToWrite& tensor : tensors)
          file.write(std::vector<float>(static_cast<std::size_t>(tensor.elements()), 1.0F));
        file.finish();
        manifest_.files[name] = {};
      }
    }
    return {folder_.path(), manifest_, model_};
  }

  TemporaryFolder folder_;
  Model model_ = test::tiny_llama();
  Manifest manifest_;
  const std::string file_ = (folder_ / "exp_avg-00001-of-00002.safetensors").string();
};

TEST_F(StoredStateOf, AnyRangeIsReadWithZerosInItsPadding) {
  StoredState stored = open();
  const Unit& embedding = model_.embedding();
  const std::int64_t end = embedding.tensors.back().elements;
  std::vector<float> values(4);
  stored.read(0, StateKey::master, {end - 2, 4}, values);
  EXPECT_EQ(values, (std::vector<float>{1, 1, 0, 0}));
  stored.read(0, StateKey::master, {}, {});
}

TEST_F(StoredStateOf, TensorsThatAreNotTheModelsAreNamed) {
  const auto refused = [&](const Edit& edit, const std::vector<std::string>& parts) {
    expect_error<DamageError>([&] { open(edit); }, parts);
  };
  for (const char* name :
       {"odd", "odd[0:2]", "model.embed_tokens.weight[0:x]", "model.embed_tokens.weight[00:2]",
        "model.embed_tokens.weight[0:2", "model.embed_tokens.weight[", ""}) {
    refused(
        [&](auto& tensors) {
          tensors.push_back({name, {2}});
        },
        {file_, std::string("unexpected tensor ") + name});
  }
  for (const char* name : {"[3:3]", "[5:3]", "[-1:2]", "[39:41]"}) {
    refused(
        [&](auto& tensors) {
          tensors.push_back({std::string("model.embed_tokens.weight") + name, {2}});
        },
        {file_, name, "is no part of one with 40 elements"});
  }
  refused(
      [](auto& tensors) {
        tensors[0].shape = {8, 5};
      },
      {file_, "model.embed_tokens.weight is F32 of shape [8, 5]", "F32 of shape [5, 8]"});
  refused(
      [](auto& tensors) {
        tensors[0] = {"model.embed_tokens.weight[0:40]", {40}};
      },
      {file_, "expected model.embed_tokens.weight: F32 of shape [5, 8]"});
  refused(
      [](auto& tensors) {
        tensors[0] = {"model.embed_tokens.weight[0:30]", {29}};
      },
      {file_, "shape [29]"});
}

TEST_F(StoredStateOf, WhatIsMissingOrThereTwiceIsNamed) {
  expect_error<DamageError>(
      [&] { open([](auto& tensors) { tensors.erase(tensors.begin()); }); },
      {folder_.path().string(), "exp_avg of tensor model.embed_tokens.weight lacks element 0 of 40"});
  expect_error<DamageError>(
      [&] { open([](auto& tensors) {
              tensors[0] = {"model.embed_tokens.weight[0:39]", {39}};
            }); },
      {"lacks element 39 of 40"});
  expect_error<DamageError>(
      [&] { open([](auto& tensors) {
              tensors.push_back({"model.embed_tokens.weight[8:16]", {8}});
            }); },
      {file_, "elements 8 to 15 of tensor model.embed_tokens.weight", "in another"});
}

TEST_F(StoredStateOf, AFileThatTheManifestDoesNotListIsNamed) {
  open();
  manifest_.files.erase("exp_avg-00002-of-00002.safetensors");
  expect_error<DamageError>(
      [&] { StoredState(folder_.path(), manifest_, model_); },
      {(folder_ / "manifest.json").string(), "of its 5 files none is exp_avg-00002-of-00002.safetensors"});
  manifest_.files.clear();
  expect_error<DamageError>([&] { StoredState(folder_.path(), manifest_, model_); },
                            {"none is master.safetensors"});
}

}  // namespace
}  // namespace strata
