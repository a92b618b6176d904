// Files that hold data in a form that is not read as text or records. Plain functions.
#pragma once

#include <string>

#include "engine/input/data/mapped_file.h"

namespace strata {

/// What the file's first bytes say that it is, "a Parquet table" say; empty: nothing that is known.
std::string known_signature(const MappedFile& file);

/// What the file is, "a table of comma-separated values (.csv)" say, by its first bytes, its name or its
/// first lines; empty: none that is known.
std::string foreign_data(const MappedFile& file);

}  // namespace strata
