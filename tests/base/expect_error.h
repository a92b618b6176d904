// Checks an error's type and that its sentence says what a user needs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace strata::test {

/// `action` must throw exactly this kind of error, with a message that contains every part.
template <typename ErrorType>
void expect_error(const std::function<void()>& action, const std::vector<std::string>& parts) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const ErrorType& error) {
    for (const std::string& part : parts) EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr(part));
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
  }
}

}  // namespace strata::test
