// How a file holds documents: it is one, each of its lines is one, or each element of its JSON array. Plain
// functions.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "engine/data/mapped_file.h"

namespace strata {

enum class DocumentForm { text, lines, array };

/// The keys of an object that say what is trained on; DocumentEncoder::encode() says which belong together.
inline constexpr std::array<const char*, 4> kDocumentKeys = {"text", "prompt", "completion", "messages"};

/// lines: the name ends with .jsonl. array: it ends with .json, and the file is an array whose first element
/// is an object with one of kDocumentKeys, or would be if it were whole and JSON. text: all others, such as
/// the .json files among source code. Capital letters in names are as good as small ones.
DocumentForm form_of_documents(const MappedFile& file);
/// Whether it is no text. Opens the file only if its name leaves that open.
bool has_objects(const std::string& file);

/// Where the element ends that `text`, the rest of a JSON array, begins with: at the comma or the bracket
/// behind it; text.size(): nowhere. What the element says is not checked.
std::size_t find_element_end(std::string_view text);

}  // namespace strata
