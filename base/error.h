// The errors that reach a user. Each carries one sentence: what is wrong, where, and what to do about it.
#pragma once

#include <stdexcept>
#include <string>

namespace strata {

/// Base of all errors a user may see; anything else that escapes is a defect of ours.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The run file, the command line, or a file that they name is wrong. Exit status 2.
struct ConfigError : Error {
  using Error::Error;
};

/// What a file holds is proven not to be what was written into it, or a part of it is missing: names the
/// file. That it cannot be read just now is an IoError.
struct DamageError : ConfigError {
  using ConfigError::ConfigError;
};

/// Reading or writing failed: names the path, the operation and the reason. Exit status 1.
struct IoError : Error {
  using Error::Error;
};

/// A device, or an instruction on it, failed. Exit status 1.
struct DeviceError : Error {
  using Error::Error;
};

/// Another rank failed, went away, or did not answer in time: names the rank and what was waited for. Exit
/// status 1.
struct CommError : Error {
  using Error::Error;
};

/// Another rank has said why it ended what this one waited for; it says so to the user, too.
struct EndedByRankError : CommError {
  using CommError::CommError;
};

}  // namespace strata
