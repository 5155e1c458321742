#include "common/graph/npy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

struct NpyRow {
  NpyType type;
  const char *name, *code;
  int64_t bytes;
};

constexpr NpyRow kNpyTypes[] = {
    {NpyType::kBool, "bool", "b1", 1},       {NpyType::kInt8, "int8", "i1", 1},
    {NpyType::kUint8, "uint8", "u1", 1},     {NpyType::kInt16, "int16", "i2", 2},
    {NpyType::kUint16, "uint16", "u2", 2},   {NpyType::kInt32, "int32", "i4", 4},
    {NpyType::kUint32, "uint32", "u4", 4},   {NpyType::kInt64, "int64", "i8", 8},
    {NpyType::kUint64, "uint64", "u8", 8},   {NpyType::kFloat16, "float16", "f2", 2},
    {NpyType::kFloat32, "float32", "f4", 4}, {NpyType::kFloat64, "float64", "f8", 8}};

constexpr char kNpyMagic[] = "\x93NUMPY";
constexpr size_t kNpyMagicBytes = 6;

const NpyRow& RowOf(NpyType type) { return kNpyTypes[static_cast<int>(type)]; }

absl::Status Refused(absl::string_view path, absl::string_view what, absl::string_view hint) {
  return WithHint(absl::InvalidArgumentError(absl::StrCat(path, ": ", what)), hint);
}

absl::Status DamagedHeader(absl::string_view path, size_t at, absl::string_view what) {
  return Refused(path, absl::StrCat("byte ", at, ": damaged .npy header: ", what),
                 "write the file again with numpy.save");
}

std::string SaveAs(absl::string_view path, absl::string_view expression) {
  return absl::StrCat("convert it in Python: numpy.save(\"", path, "\", ", expression, ")");
}

std::string Loaded(absl::string_view path) { return absl::StrCat("numpy.load(\"", path, "\")"); }

// "complex64" of "<c8".
std::string NameOfRefused(absl::string_view code) {
  const absl::string_view kind = code.substr(code.empty() || absl::ascii_isalpha(code[0]) ? 0 : 1);
  if (kind.empty()) return "unknown";
  switch (kind[0]) {
    case 'O':
      return "object";
    case 'U':
    case 'S':
    case 'a':
      return "text";
    case 'V':
      return "void";
    case 'c':
      return "complex";
    case 'M':
    case 'm':
      return "time";
    default:
      return absl::StrCat("'", code.substr(0, 16), "'");
  }
}

// The dict. Not more of Python than NumPy writes.
class NpyHeaderParser {
 public:
  NpyHeaderParser(absl::string_view path, absl::string_view text, size_t offset)
      : path_(path), text_(text), offset_(offset) {}

  absl::StatusOr<NpyHeader> Parse() {
    NpyHeader header;
    bool type = false, order = false, shape = false;
    LH_RETURN_IF_ERROR(Expect('{'));
    while (!Accept('}')) {
      LH_ASSIGN_OR_RETURN(const absl::string_view key, Quoted());
      LH_RETURN_IF_ERROR(Expect(':'));
      if (key == "descr" && !std::exchange(type, true)) {
        LH_ASSIGN_OR_RETURN(header.type, Type());
      } else if (key == "fortran_order" && !std::exchange(order, true)) {
        LH_ASSIGN_OR_RETURN(fortran_, Bool());
      } else if (key == "shape" && !std::exchange(shape, true)) {
        LH_ASSIGN_OR_RETURN(header.shape, Shape());
      } else {
        return Damaged(absl::StrCat("the key '", key.substr(0, 32), "'"));
      }
      if (!Accept(',')) {
        LH_RETURN_IF_ERROR(Expect('}'));
        break;
      }
    }
    if (!type || !order || !shape) return Damaged("descr, fortran_order or shape is missing");
    Skip();
    if (at_ != text_.size()) return Damaged("bytes after the dict");
    // An array of one dimension has no order.
    if (fortran_ && header.shape.size() > 1) {
      return Refused(path_, "the array is in Fortran's order",
                     SaveAs(path_, absl::StrCat("numpy.ascontiguousarray(", Loaded(path_), ")")));
    }
    int64_t elements = 1;
    // One of 0 must not hide others that are too large.
    for (const int64_t size : header.shape) {
      const auto product = CheckedMul(elements, std::max<int64_t>(size, 1));
      if (!product.has_value()) return TooLarge(header);
      elements = *product;
    }
    if (!CheckedMul(elements, BytesOf(header.type)).has_value()) return TooLarge(header);
    header.elements = std::count(header.shape.begin(), header.shape.end(), 0) > 0 ? 0 : elements;
    return header;
  }

 private:
  absl::Status Damaged(absl::string_view what) const {
    return DamagedHeader(path_, offset_ + at_, what);
  }
  absl::Status TooLarge(const NpyHeader& header) const {
    return Damaged(absl::StrCat("the shape ", ShapeText(header.shape), " is too large"));
  }
  void Skip() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }
  bool Accept(char c) {
    Skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  absl::Status Expect(char c) {
    if (Accept(c)) return absl::OkStatus();
    return Damaged(absl::StrCat("'", absl::string_view(&c, 1), "' is missing"));
  }
  absl::StatusOr<absl::string_view> Quoted() {
    Skip();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"'))
      return Damaged("a text is missing");
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == absl::string_view::npos) return Damaged("a text does not end");
    const absl::string_view text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return text;
  }
  absl::StatusOr<bool> Bool() {
    Skip();
    for (const bool value : {false, true}) {
      const absl::string_view word = value ? "True" : "False";
      if (!absl::StartsWith(text_.substr(at_), word)) continue;
      at_ += word.size();
      return value;
    }
    return Damaged("fortran_order is neither True nor False");
  }
  absl::StatusOr<NpyType> Type() {
    Skip();
    if (at_ < text_.size() && text_[at_] == '[') {
      return Refused(path_, "the elements are structures",
                     SaveAs(path_, absl::StrCat(Loaded(path_), "[FIELD]")));
    }
    LH_ASSIGN_OR_RETURN(const absl::string_view code, Quoted());
    for (const NpyRow& row : kNpyTypes) {
      if (code.size() < 2 || code.substr(1) != row.code) continue;
      if (code[0] == '<' || code[0] == '=' || row.bytes == 1) return row.type;
      if (code[0] != '>') break;
      return Refused(path_, absl::StrCat("the elements are big-endian ", row.name),
                     SaveAs(path_, absl::StrCat(Loaded(path_), ".astype(\"<", row.code, "\")")));
    }
    return Refused(
        path_, absl::StrCat("the elements are of the type ", NameOfRefused(code), ", not a number"),
        "save numbers: int32, int64 or float32");
  }
  absl::StatusOr<std::vector<int64_t>> Shape() {
    std::vector<int64_t> shape;
    LH_RETURN_IF_ERROR(Expect('('));
    while (!Accept(')')) {
      Skip();
      const size_t begin = at_;
      while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) ++at_;
      int64_t size = 0;
      if (!absl::SimpleAtoi(text_.substr(begin, at_ - begin), &size))
        return Damaged("a size of the shape is not a number, or is too large");
      // Python 2 wrote long numbers so.
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;
      if (shape.size() == kNpyDimensionsMax)
        return Damaged(absl::StrCat("more than ", kNpyDimensionsMax, " dimensions"));
      shape.push_back(size);
      if (!Accept(',')) {
        LH_RETURN_IF_ERROR(Expect(')'));
        break;
      }
    }
    return shape;
  }

  const absl::string_view path_, text_;
  // Of the text in the file.
  const size_t offset_;
  size_t at_ = 0;
  bool fortran_ = false;
};

}  // namespace

absl::string_view NameOf(NpyType type) { return RowOf(type).name; }

std::optional<NpyType> NpyTypeOf(absl::string_view name) {
  for (const NpyRow& row : kNpyTypes) {
    if (name == row.name) return row.type;
  }
  return std::nullopt;
}

int64_t BytesOf(NpyType type) { return RowOf(type).bytes; }

bool IsFloat(NpyType type) { return RowOf(type).code[0] == 'f'; }

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view path, absl::string_view head) {
  if (head.substr(0, kNpyMagicBytes) != absl::string_view(kNpyMagic, kNpyMagicBytes) ||
      head.size() < 10) {
    return Refused(path, "not a .npy file",
                   "write it with numpy.save; a CSV file's name must not end with .npy");
  }
  const int version = static_cast<uint8_t>(head[6]);
  if (version < 1 || version > 3)
    return DamagedHeader(path, 6, absl::StrCat("the version ", version, " is unknown"));
  uint32_t length = 0;
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t begin = 8 + length_bytes;
  if (head.size() < begin) return DamagedHeader(path, 8, "the file ends within it");
  std::memcpy(&length, head.data() + 8, length_bytes);
  if (length > kNpyHeaderMax - begin)
    return DamagedHeader(path, 8, absl::StrCat("it is said to have ", length, " bytes"));
  if (head.size() < begin + length) return DamagedHeader(path, 8, "the file ends within it");
  LH_ASSIGN_OR_RETURN(NpyHeader header,
                      NpyHeaderParser(path, head.substr(begin, length), begin).Parse());
  header.data = static_cast<int64_t>(begin + length);
  return header;
}

absl::Status CheckNpySize(absl::string_view path, const NpyHeader& header, int64_t file_bytes) {
  const int64_t there = file_bytes - header.data;
  if (there == header.bytes()) return absl::OkStatus();
  return Refused(path,
                 absl::StrCat("an array ", ShapeText(header.shape), " of ", NameOf(header.type),
                              " has ", header.bytes(), " bytes, the file has ", there, " of it"),
                 there < header.bytes() ? "the file is cut: copy or write it again"
                                        : "write the file again with numpy.save");
}

std::string WriteNpyHeader(NpyType type, const std::vector<int64_t>& shape) {
  const NpyRow& row = RowOf(type);
  std::string dict = absl::StrCat("{'descr': '", row.bytes == 1 ? "|" : "<", row.code,
                                  "', 'fortran_order': False, 'shape': ", ShapeText(shape), ", }");
  constexpr size_t kBegin = 10;
  LH_CHECK(kBegin + dict.size() < kNpyWrittenHeader, "a header of two dimensions fits");
  dict.resize(kNpyWrittenHeader - kBegin - 1, ' ');
  dict.push_back('\n');
  std::string head(kNpyMagic, kNpyMagicBytes);
  head += '\x01';
  head += '\0';
  const auto length = static_cast<uint16_t>(dict.size());
  head.append(reinterpret_cast<const char*>(&length), sizeof(length));
  return head + dict;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), shape.size() == 1 ? ",)" : ")");
}

}  // namespace longhaul
