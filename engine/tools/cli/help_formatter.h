// The text of --help as a terminal shows it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

#include "engine/tools/report/wrapped.h"

namespace strata {

/// CLI11's own text, with lines as wide as the terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return for_output(Formatter::make_help(app, std::move(name), mode));
  }
};

}  // namespace strata
