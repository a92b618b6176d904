// What a terminal shows of text: carriage returns, backspaces, cursor up, erasing to the end of a line and of
// the screen. Modes that are set change nothing. It has no lower end, and lines that are too long do not
// wrap.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::test {

class Terminal {
 public:
  void show(std::string_view text);
  /// Without spaces at their ends, and without empty lines at the end.
  std::vector<std::string> lines() const;
  /// Columns of the longest line that was ever there, with two for what may be a wide character.
  std::size_t width() const { return width_; }

 private:
  void put(std::string character);
  void control(char command, std::size_t count);

  std::vector<std::vector<std::string>> rows_ = {{}};
  std::size_t row_ = 0, column_ = 0, width_ = 0;
};

}  // namespace strata::test
