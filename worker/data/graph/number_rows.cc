#include "worker/data/graph/number_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/escaped_text.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"
#include "common/io/file_content.h"
#include "common/io/read_only_file.h"
#include "worker/data/byte_stream.h"
#include "worker/data/graph/zip_member.h"

namespace longhaul {

const char kTorchHint[] =
    "save it as .npy in Python: import numpy, torch; "
    "data = torch.load(FILE, weights_only=True); "
    "numpy.save(\"NAME.npy\", data.numpy()) for a tensor, or for each tensor of a dict or list "
    "(data[\"x\"], data[\"edge_index\"], data[\"y\"], data[\"train_mask\"]); masks and ids are "
    "both "
    "accepted as splits";

namespace {

constexpr size_t kPieceBytes = 1 << 18;
constexpr size_t kLineMax = 64 << 20;
// Spreadsheets, and PowerShell, begin text with it.
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

absl::Status RefusedFile(absl::string_view name, absl::string_view what, absl::string_view hint) {
  return WithHint(absl::InvalidArgumentError(absl::StrCat(name, ": ", what)), hint);
}

// Of a plain file, from some byte on.
class FileBytes : public ByteStream {
 public:
  FileBytes(ReadOnlyFile file, int64_t at) : file_(std::move(file)), at_(at) {}
  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    out = out.subspan(0, std::min<int64_t>(out.size(), file_.size() - at_));
    LH_RETURN_IF_ERROR(file_.Read(at_, {reinterpret_cast<uint8_t*>(out.data()), out.size()}));
    at_ += static_cast<int64_t>(out.size());
    return out.size();
  }
  int64_t taken() const override { return at_; }

 private:
  ReadOnlyFile file_;
  int64_t at_;
};

// A stream whose next bytes can be looked at.
class PeekedStream {
 public:
  explicit PeekedStream(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}

  // The next bytes, `size` or all that there are.
  absl::StatusOr<absl::string_view> Peek(size_t size) {
    while (!ended_ && waiting() < size) LH_RETURN_IF_ERROR(Fill(size));
    return absl::string_view(buffer_).substr(at_);
  }
  void Skip(size_t size) { at_ += size; }
  absl::Status SkipByteOrderMark() {
    LH_ASSIGN_OR_RETURN(const absl::string_view head, Peek(kByteOrderMark.size()));
    if (absl::StartsWith(head, kByteOrderMark)) Skip(kByteOrderMark.size());
    return absl::OkStatus();
  }
  // Fewer only at the end.
  absl::StatusOr<size_t> Read(absl::Span<char> out) {
    size_t done = std::min(waiting(), out.size());
    std::memcpy(out.data(), buffer_.data() + at_, done);
    at_ += done;
    while (done < out.size() && !ended_) {
      LH_ASSIGN_OR_RETURN(const size_t read, stream_->Read(out.subspan(done)));
      ended_ = read == 0;
      done += read;
    }
    return done;
  }
  bool ended() const { return ended_; }

 private:
  size_t waiting() const { return buffer_.size() - at_; }
  absl::Status Fill(size_t size) {
    buffer_.erase(0, at_);
    at_ = 0;
    const size_t there = buffer_.size(), room = std::max(kPieceBytes, size - there);
    buffer_.resize(there + room);
    const absl::StatusOr<size_t> read = stream_->Read(absl::MakeSpan(&buffer_[there], room));
    buffer_.resize(there + (read.ok() ? *read : 0));
    if (read.ok()) ended_ = *read == 0;
    return read.status();
  }

  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t at_ = 0;
  bool ended_ = false;
};

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000U) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float value;
  if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else if (exponent == 31) {
    value = mantissa == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else {
    value = std::ldexp(static_cast<float>(mantissa + 1024), static_cast<int>(exponent) - 25);
  }
  return sign == 0 ? value : -value;
}

struct Half {
  uint16_t bits;
  explicit operator float() const { return HalfToFloat(bits); }
  explicit operator double() const { return HalfToFloat(bits); }
};

class NpyRows : public NumberRows {
 public:
  NpyRows(std::string name, NpyHeader header, PeekedStream stream) : stream_(std::move(stream)) {
    name_ = std::move(name);
    columns_ = 1;
    for (size_t i = 1; i < header.shape.size(); ++i) columns_ *= header.shape[i];
    left_ = columns_ == 0 ? 0 : header.elements / columns_;
    header_ = std::move(header);
  }
  // Of OpenElements: no header says how many there are.
  void Narrow(int64_t elements) {
    columns_ = 1;
    left_ = elements;
    whole_ = false;
  }

  absl::StatusOr<int64_t> Read(absl::Span<int64_t> out) override {
    if (IsFloat(header_->type)) {
      return RefusedFile(
          name_,
          absl::StrCat("the array is of ", NameOf(header_->type), ", whole numbers are needed"),
          absl::StrCat("convert it in Python: numpy.save(\"", name_, "\", numpy.load(\"", name_,
                       "\").astype(\"int64\"))"));
    }
    if (header_->type == NpyType::kUint32 || header_->type == NpyType::kUint64) {
      return RefusedFile(name_, absl::StrCat("the array is of ", NameOf(header_->type)),
                         absl::StrCat("convert it in Python: numpy.save(\"", name_,
                                      "\", numpy.load(\"", name_, "\").astype(\"int64\"))"));
    }
    return Convert(out);
  }
  absl::StatusOr<int64_t> Read(absl::Span<double> out) override { return Convert(out); }
  absl::StatusOr<int64_t> Read(absl::Span<float> out) override { return Convert(out); }

 private:
  template <typename Out>
  absl::StatusOr<int64_t> Convert(absl::Span<Out> out) {
    const int64_t row_bytes = columns_ * BytesOf(header_->type);
    const int64_t rows =
        columns_ == 0 ? 0 : std::min<int64_t>(left_, static_cast<int64_t>(out.size()) / columns_);
    bytes_.resize(rows * row_bytes);
    LH_ASSIGN_OR_RETURN(const size_t read, stream_.Read(absl::MakeSpan(bytes_)));
    if (read < bytes_.size()) {
      return RefusedFile(
          name_,
          absl::StrCat("the file ends in row ",
                       *this->rows() - left_ + static_cast<int64_t>(read) / row_bytes,
                       " of an array ", ShapeText(header_->shape)),
          "the file is cut: copy or write it again");
    }
    left_ -= rows;
    const int64_t count = rows * columns_;
    switch (header_->type) {
      case NpyType::kBool:
      case NpyType::kUint8:
        Copy<uint8_t>(count, out);
        break;
      case NpyType::kInt8:
        Copy<int8_t>(count, out);
        break;
      case NpyType::kInt16:
        Copy<int16_t>(count, out);
        break;
      case NpyType::kUint16:
        Copy<uint16_t>(count, out);
        break;
      case NpyType::kInt32:
        Copy<int32_t>(count, out);
        break;
      case NpyType::kUint32:
        Copy<uint32_t>(count, out);
        break;
      case NpyType::kInt64:
        Copy<int64_t>(count, out);
        break;
      case NpyType::kUint64:
        Copy<uint64_t>(count, out);
        break;
      case NpyType::kFloat16:
        if constexpr (!std::is_same_v<Out, int64_t>) Copy<Half>(count, out);
        break;
      case NpyType::kFloat32:
        Copy<float>(count, out);
        break;
      case NpyType::kFloat64:
        Copy<double>(count, out);
        break;
    }
    if (left_ == 0 && whole_) {
      LH_ASSIGN_OR_RETURN(const absl::string_view more, stream_.Peek(1));
      if (!more.empty()) {
        return RefusedFile(name_, absl::StrCat("bytes after an array ", ShapeText(header_->shape)),
                           "write the file again with numpy.save");
      }
    }
    return rows;
  }
  template <typename In, typename Out>
  void Copy(int64_t count, absl::Span<Out> out) const {
    const char* at = bytes_.data();
    for (int64_t i = 0; i < count; ++i, at += sizeof(In)) {
      In value;
      std::memcpy(&value, at, sizeof(In));
      out[i] = static_cast<Out>(value);
    }
  }

  PeekedStream stream_;
  std::string bytes_;
  int64_t left_ = 0;
  bool whole_ = true;
};

class CsvRows : public NumberRows {
 public:
  CsvRows(std::string name, PeekedStream stream) : stream_(std::move(stream)) {
    name_ = std::move(name);
  }
  // The length of the first row is that of all.
  absl::Status Start() {
    LH_RETURN_IF_ERROR(stream_.SkipByteOrderMark());
    LH_RETURN_IF_ERROR(NextLine());
    if (!has_line_) return absl::OkStatus();
    if (absl::StrContains(line_, ';')) {
      return ErrorAt(0, 0, "its columns are separated by semicolons",
                     "separate them by commas, and write decimals with a point");
    }
    columns_ = 1 + std::count(line_.begin(), line_.end(), ',');
    // Edges are also written with a tab or spaces.
    if (columns_ == 1) {
      const size_t space = line_.find_first_of(" \t");
      if (space != absl::string_view::npos) {
        spaces_ = true;
        columns_ = 0;
        for (absl::string_view rest = line_; !TakeField(rest).empty();) ++columns_;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Read(absl::Span<int64_t> out) override {
    return ReadAll(out, "a whole number");
  }
  absl::StatusOr<int64_t> Read(absl::Span<double> out) override { return ReadAll(out, "a number"); }
  absl::StatusOr<int64_t> Read(absl::Span<float> out) override { return ReadAll(out, "a number"); }

 private:
  template <typename T>
  absl::StatusOr<int64_t> ReadAll(absl::Span<T> out, const char* what) {
    int64_t rows = 0;
    while (has_line_ && (rows + 1) * columns_ <= static_cast<int64_t>(out.size())) {
      absl::string_view rest = line_;
      for (int64_t column = 0; column < columns_; ++column) {
        if (column > 0 && rest.data() == nullptr) return WrongLength();
        const absl::string_view field = TakeField(rest);
        if (Parse(field, out[rows * columns_ + column])) continue;
        return ErrorAt(row_, column,
                       absl::StrCat("\"", EscapedLine(field.substr(0, 40)), "\" is not ", what),
                       row_ == 0 && HasLetter(field)
                           ? "a CSV file must not have a heading: remove its first line"
                           : "correct the line");
      }
      if (rest.data() != nullptr && !(spaces_ && TakeField(rest).empty())) return WrongLength();
      ++rows;
      ++row_;
      LH_RETURN_IF_ERROR(NextLine());
    }
    return rows;
  }
  absl::Status WrongLength() const {
    return ErrorAt(row_, 0, absl::StrCat("not ", columns_, " numbers, as the first line has"),
                   "correct the line");
  }

  static bool HasLetter(absl::string_view field) {
    return std::any_of(field.begin(), field.end(), absl::ascii_isalpha);
  }

  // Cuts the next field off. After the last one the rest is null. A number may be quoted.
  absl::string_view TakeField(absl::string_view& rest) const {
    const absl::string_view field = TakeWord(rest);
    const bool quoted = field.size() >= 2 && field.front() == '"' && field.back() == '"';
    return quoted ? field.substr(1, field.size() - 2) : field;
  }

  absl::string_view TakeWord(absl::string_view& rest) const {
    if (spaces_) {
      const size_t begin = std::min(rest.find_first_not_of(" \t"), rest.size());
      const size_t end = std::min(rest.find_first_of(" \t", begin), rest.size());
      const absl::string_view field = rest.substr(begin, end - begin);
      rest = end == rest.size() ? absl::string_view() : rest.substr(end);
      return field;
    }
    const size_t comma = rest.find(',');
    absl::string_view field = rest.substr(0, comma);
    rest = comma == absl::string_view::npos ? absl::string_view() : rest.substr(comma + 1);
    while (!field.empty() && (field.front() == ' ' || field.front() == '\t'))
      field.remove_prefix(1);
    while (!field.empty() && (field.back() == ' ' || field.back() == '\t')) field.remove_suffix(1);
    return field;
  }

  template <typename T>
  static bool Parse(absl::string_view field, T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      if (field.empty()) {
        value = std::numeric_limits<T>::quiet_NaN();
        return true;
      }
    }
    if (!field.empty() && field[0] == '+') field.remove_prefix(1);
    const char* const end = field.data() + field.size();
    const auto [at, error] = std::from_chars(field.data(), end, value);
    if constexpr (std::is_floating_point_v<T>) {
      // Too small for the type: zero; too large: infinite.
      if (error == std::errc::result_out_of_range && at == end) {
        double wide = 0;
        if (std::is_same_v<T, double> || !Parse(field, wide)) return false;
        value = static_cast<T>(wide);
        return true;
      }
    }
    return error == std::errc() && at == end && !field.empty();
  }

  absl::Status NextLine() {
    stream_.Skip(line_bytes_);
    has_line_ = false;
    line_bytes_ = 0;
    size_t wanted = 1, searched = 0;
    while (true) {
      LH_ASSIGN_OR_RETURN(const absl::string_view bytes, stream_.Peek(wanted));
      if (bytes.empty()) return absl::OkStatus();
      const size_t end = bytes.find('\n', searched);
      if (end == absl::string_view::npos && !stream_.ended()) {
        searched = bytes.size();
        if (searched > kLineMax)
          return ErrorAt(row_, 0, "a line of more than 64 MiB", "is it a text file?");
        wanted = searched + 1;
        continue;
      }
      line_ = bytes.substr(0, end);
      line_bytes_ = std::min(line_.size() + 1, bytes.size());
      if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
      if (line_.empty()) {
        // Empty lines at the end are none.
        LH_ASSIGN_OR_RETURN(const absl::string_view more, stream_.Peek(kNpyHeaderMax));
        if (more.find_first_not_of("\r\n") == absl::string_view::npos && stream_.ended())
          return absl::OkStatus();
        if (columns_ != 1) return ErrorAt(row_, 0, "an empty line", "remove the line");
        line_ = absl::string_view("", 0);
      }
      has_line_ = true;
      return absl::OkStatus();
    }
  }

  PeekedStream stream_;
  // Valid until the next line is asked for.
  absl::string_view line_;
  size_t line_bytes_ = 0;
  bool has_line_ = false, spaces_ = false;
  int64_t row_ = 0;
};

absl::StatusOr<PeekedStream> OpenPeeked(const NumberFile& file) {
  if (file.array.empty()) {
    LH_ASSIGN_OR_RETURN(auto stream, ByteStream::Open(file.path));
    return PeekedStream(std::move(stream));
  }
  LH_ASSIGN_OR_RETURN(auto stream, OpenZipMember(file.path, absl::StrCat(file.array, ".npy")));
  return PeekedStream(std::move(stream));
}

std::string NameOfFile(const NumberFile& file) {
  return file.array.empty() ? file.path : absl::StrCat(file.path, "[", file.array, "]");
}

}  // namespace

absl::StatusOr<std::unique_ptr<NumberRows>> NumberRows::Open(const NumberFile& file) {
  LH_ASSIGN_OR_RETURN(PeekedStream stream, OpenPeeked(file));
  LH_ASSIGN_OR_RETURN(absl::string_view head, stream.Peek(kNpyHeaderMax));
  const std::string name = NameOfFile(file);
  if (absl::StartsWith(head, "\x93NUMPY") || absl::EndsWith(file.path, ".npy") ||
      !file.array.empty()) {
    LH_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(name, head.substr(0, kNpyHeaderMax)));
    if (header.shape.empty() || header.shape.size() > 2) {
      return RefusedFile(name,
                         absl::StrCat("an array ", ShapeText(header.shape),
                                      ", one of one or two dimensions is needed"),
                         "reshape it in Python");
    }
    // A gross fault is told before anything is read.
    if (file.array.empty()) {
      LH_ASSIGN_OR_RETURN(const Compression compression, CompressionOf(file.path));
      if (compression == Compression::kNone) {
        LH_ASSIGN_OR_RETURN(const ReadOnlyFile plain, ReadOnlyFile::Open(file.path));
        LH_RETURN_IF_ERROR(CheckNpySize(name, header, plain.size()));
      }
    }
    stream.Skip(header.data);
    return std::make_unique<NpyRows>(name, std::move(header), std::move(stream));
  }
  if (absl::StartsWith(head, "PK\x03\x04"))
    return RefusedFile(name, "a zip archive, as .pt and .npz files are", kTorchHint);
  const FileContent content = ContentOf(head.substr(0, kContentHeadBytes));
  if (content.form == FileForm::kBinary || content.form == FileForm::kOther ||
      content.form == FileForm::kAbsent || content.form == FileForm::kTable) {
    return RefusedFile(name, absl::StrCat("neither .npy nor CSV: it is ", content.what),
                       content.hint.empty() ? "save it as .npy or CSV" : content.hint);
  }
  auto rows = std::make_unique<CsvRows>(name, std::move(stream));
  LH_RETURN_IF_ERROR(rows->Start());
  return rows;
}

absl::StatusOr<std::unique_ptr<NumberRows>> NumberRows::OpenElements(const NumberFile& file,
                                                                     int64_t skipped,
                                                                     int64_t elements) {
  LH_ASSIGN_OR_RETURN(PeekedStream stream, OpenPeeked(file));
  LH_ASSIGN_OR_RETURN(const absl::string_view head, stream.Peek(kNpyHeaderMax));
  const std::string name = NameOfFile(file);
  LH_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(name, head.substr(0, kNpyHeaderMax)));
  const int64_t at = header.data + skipped * BytesOf(header.type);
  bool plain = file.array.empty();
  if (plain) {
    LH_ASSIGN_OR_RETURN(const Compression compression, CompressionOf(file.path));
    plain = compression == Compression::kNone;
  }
  if (plain) {
    LH_ASSIGN_OR_RETURN(ReadOnlyFile bytes, ReadOnlyFile::Open(file.path));
    LH_RETURN_IF_ERROR(CheckNpySize(name, header, bytes.size()));
    stream = PeekedStream(std::make_unique<FileBytes>(std::move(bytes), at));
  } else {
    std::string passed(kPieceBytes, '\0');
    for (int64_t left = at; left > 0;) {
      const auto piece = absl::MakeSpan(passed).subspan(0, std::min<int64_t>(left, kPieceBytes));
      LH_ASSIGN_OR_RETURN(const size_t read, stream.Read(piece));
      if (read == 0)
        return RefusedFile(name, "it ends early", "the file is cut: copy or write it again");
      left -= static_cast<int64_t>(read);
    }
  }
  auto rows = std::make_unique<NpyRows>(name, std::move(header), std::move(stream));
  rows->Narrow(elements);
  return rows;
}

std::optional<int64_t> NumberRows::rows() const {
  if (!header_.has_value()) return std::nullopt;
  return header_->shape.empty() ? 1 : header_->shape[0];
}

absl::Status NumberRows::ErrorAt(int64_t row, int64_t column, absl::string_view what,
                                 absl::string_view hint) const {
  const int from = header_.has_value() ? 0 : 1;
  std::string position = absl::StrCat(header_.has_value() ? "row " : "line ", row + from);
  if (columns_ > 1) absl::StrAppend(&position, ", column ", column + from);
  return RefusedFile(name_, absl::StrCat(position, ": ", what), hint);
}

absl::Status ForEachLine(const std::string& path,
                         absl::FunctionRef<absl::Status(int64_t, absl::string_view)> line) {
  LH_ASSIGN_OR_RETURN(auto bytes, ByteStream::Open(path));
  PeekedStream stream(std::move(bytes));
  LH_RETURN_IF_ERROR(stream.SkipByteOrderMark());
  constexpr size_t kTextLineMax = 1 << 16;
  for (int64_t number = 0;; ++number) {
    LH_ASSIGN_OR_RETURN(absl::string_view text, stream.Peek(kTextLineMax + 1));
    if (text.empty()) return absl::OkStatus();
    const size_t end = text.substr(0, kTextLineMax + 1).find('\n');
    if (end == absl::string_view::npos && text.size() > kTextLineMax) {
      return RefusedFile(path, absl::StrCat("line ", number + 1, ": longer than 64 KiB"),
                         "give a text file with a name on each line");
    }
    const absl::string_view whole = text.substr(0, end);
    absl::string_view shown = whole;
    if (!shown.empty() && shown.back() == '\r') shown.remove_suffix(1);
    LH_RETURN_IF_ERROR(line(number, shown));
    stream.Skip(std::min(whole.size() + 1, text.size()));
  }
}

}  // namespace longhaul
