#include "collectives/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>

#include "base/nth.h"
#include "base/system_error.h"
#include "collectives/launcher.h"

namespace strata {
namespace {

/// The first character of an outcome on its way between ranks; the rest is the action's text, or its error's.
enum Outcome : char {
  kDone = 'd',
  kConfigError = 'c',
  kDamageError = 'm',
  kIoError = 'i',
  kSystemError = 's',
  kError = 'e',
  kDefect = 'x'
};

/// A SystemError's text ends with its code, in kCodeDigits digits.
constexpr std::size_t kCodeDigits = 8;

std::string code_text(int code) {
  return fmt::format("{:0{}}", code, kCodeDigits);
}

std::string outcome(Outcome what, const std::string& text) {
  return fmt::format("{}{}", static_cast<char>(what), text);
}

/// Performs the action on this rank, whose name comes before its error.
std::string outcome_of(const std::function<std::string()>& action, int rank) {
  const auto failed = [&](Outcome how, const std::exception& error) {
    return outcome(how, fmt::format("{}: {}", name_as_rank(rank), error.what()));
  };
  try {
    return outcome(kDone, action());
  } catch (const CommError&) {
    throw;  // the group is of no more use, for telling others either
  } catch (const DamageError& error) {
    return failed(kDamageError, error);
  } catch (const ConfigError& error) {
    return failed(kConfigError, error);
  } catch (const SystemError& error) {
    return failed(kSystemError, error) + code_text(error.code);
  } catch (const IoError& error) {
    return failed(kIoError, error);
  } catch (const Error& error) {
    return failed(kError, error);
  } catch (const std::exception& error) {
    return failed(kDefect, error);
  }
}

std::string text_in(const std::string& outcome) {
  std::string text = outcome.substr(1);
  switch (outcome[0]) {
    case kDone:
      return text;
    case kConfigError:
      throw ConfigError(text);
    case kDamageError:
      throw DamageError(text);
    case kIoError:
      throw IoError(text);
    case kSystemError:
      throw SystemError(text.substr(0, text.size() - kCodeDigits),
                        std::stoi(text.substr(text.size() - kCodeDigits)));
    case kError:
      throw Error(text);
    default:
      throw std::runtime_error(text);
  }
}

bool is_alone(const Communicator* ranks) {
  return ranks == nullptr || ranks->size() == 1;
}

std::string broadcast_text(Communicator& ranks, std::string text) {
  std::size_t size = text.size();
  ranks.broadcast(&size, sizeof(size), Element::byte, 0);
  text.resize(size);
  ranks.broadcast(text.data(), size, Element::byte, 0);
  return text;
}

std::vector<std::string> gather_texts(Communicator& ranks, std::string text) {
  auto sizes = sized<std::vector<std::size_t>>(ranks.size());
  const std::size_t size = text.size();
  ranks.all_gather(&size, sizes.data(), sizeof(size), Element::byte);
  const std::size_t longest = *std::ranges::max_element(sizes);
  text.resize(longest);
  std::string all(longest * sizes.size(), '\0');
  ranks.all_gather(text.data(), all.data(), longest, Element::byte);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank)
    texts.push_back(all.substr(rank * longest, sizes[rank]));
  return texts;
}

bool has_failed(const std::string& outcome) {
  return outcome[0] != kDone;
}

/// For actions that have nothing to say.
std::function<std::string()> silent(const std::function<void()>& action) {
  return [&action] {
    action();
    return std::string();
  };
}

}  // namespace

void let_all_hear(Communicator& ranks) {
  const char here = 0;
  auto all = sized<std::string>(ranks.size());
  try {
    ranks.all_gather(&here, all.data(), sizeof(here), Element::byte);
  } catch (const CommError&) {
    // Another rank has heard it, and ends.
  }
}

void on_first_rank(Communicator* ranks, const std::function<void()>& action) {
  text_of_first_rank(ranks, silent(action));
}

std::string text_of_first_rank(Communicator* ranks, const std::function<std::string()>& action) {
  if (is_alone(ranks)) return action();
  const std::string outcome = broadcast_text(*ranks, ranks->rank() == 0 ? outcome_of(action, 0) : "");
  if (has_failed(outcome)) let_all_hear(*ranks);
  return text_in(outcome);
}

void on_every_rank(Communicator* ranks, const std::function<void()>& action) {
  texts_of_ranks(ranks, silent(action));
}

std::vector<std::string> texts_of_ranks(Communicator* ranks, const std::function<std::string()>& action) {
  if (is_alone(ranks)) return {action()};
  std::vector<std::string> texts = gather_texts(*ranks, outcome_of(action, ranks->rank()));
  if (std::ranges::any_of(texts, has_failed)) let_all_hear(*ranks);
  for (std::string& text : texts) text = text_in(text);
  return texts;
}

}  // namespace strata
