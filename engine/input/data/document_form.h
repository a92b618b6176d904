// How a file holds documents: it is one, or it has records, which are JSON objects, in lines, one behind
// another or in an array. What it looks like decides, or data.format. Plain functions.
#pragma once

#include <cstddef>
#include <string>

#include "engine/config/choices.h"
#include "engine/input/data/mapped_file.h"
#include "engine/input/data/record_fields.h"

namespace strata {

/// text: the file is a document. lines: each line is a record. values: records follow one another, each over
/// several lines. array: the elements of an array are records.
enum class DocumentForm { text, lines, values, array };

/// What says how files are read: data.format and data.fields.
struct DocumentOptions {
  DataFormat format = DataFormat::automatic;
  RecordFields fields = RecordFields();
};

struct DocumentLayout {
  DocumentForm form = DocumentForm::text;
  std::size_t begin = 0;             ///< bytes in front of the text, or of the first record
  bool has_byte_order_mark = false;  ///< it is among these bytes
  bool is_under_key = false;         ///< the array is an object's, and more of the object may follow it
};

/// By format automatic a file has records if its name ends with .jsonl, .ndjson or .jsonlines, or if it
/// - begins with an array of objects, or in a .json with any array;
/// - begins with two objects, one behind the other;
/// - is one object that is a record, or has a list of such, or has nothing but a list of objects.
/// So any other JSON, as source code has it, is a text. Throws ConfigError for a file that is data in another
/// form (foreign_data.h), and if format records finds none, or several lists of them.
DocumentLayout layout_of_documents(const MappedFile& file, const DocumentOptions& options = {});
/// Whether the file has records. Throws ConfigError as layout_of_documents() does.
bool has_records(const std::string& file, const DocumentOptions& options = {});

/// Throws ConfigError if the file, whose bytes are to be tokens, is data rather than text, unless data.format
/// says that it is a text.
void require_text(const MappedFile& file, DataFormat format);

/// Bytes of the byte order mark that the text begins with; 0: it has none.
std::size_t byte_order_mark(std::string_view text);

}  // namespace strata
