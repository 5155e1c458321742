#include "worker/data/documents.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "nlohmann/json.hpp"

namespace longhaul {
namespace {

constexpr size_t kReadBytes = 1 << 18;
constexpr size_t kFieldsNamed = 8, kNameShown = 40, kQuoteShown = 60;

// The parser's words without most of what it quotes, which is all that it has read of a text.
std::string WithShortQuote(absl::string_view error) {
  constexpr absl::string_view kQuote = "last read: '";
  const size_t quote = error.find(kQuote);
  const size_t head = quote == absl::string_view::npos ? kQuoteShown : quote + kQuote.size();
  if (error.size() <= head + 2 * kQuoteShown) return ToUtf8(error);
  size_t tail = error.size() - kQuoteShown;
  while (tail < error.size() && (static_cast<uint8_t>(error[tail]) & 0xC0) == 0x80) ++tail;
  return ToUtf8(absl::StrCat(error.substr(0, head), "...", error.substr(tail)));
}

// Takes one text field out of an object; builds nothing of the rest.
class FieldFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit FieldFinder(absl::string_view field) : field_(field) {}

  bool null() override {
    const bool ours = depth_ == 1 && at_field_;
    if (!Other("is not text but null: give it text, leave the row out, or skip such rows "
               "(null_rows of this source, --null-rows)"))
      return false;
    is_null_ = is_null_ || ours;
    return true;
  }
  bool boolean(bool) override { return Other(); }
  bool number_integer(number_integer_t) override { return Other(); }
  bool number_unsigned(number_unsigned_t) override { return Other(); }
  bool number_float(number_float_t, const string_t&) override { return Other(); }
  bool binary(binary_t&) override { return Other(); }
  bool string(string_t& value) override {
    if (depth_ != 1 || !at_field_) return Other();
    text_ = std::move(value);
    not_text_.clear();
    at_field_ = is_null_ = false;
    return true;
  }
  bool start_object(size_t) override { return Open(true); }
  bool start_array(size_t) override { return Open(false); }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    at_field_ = name == field_;
    if (!at_field_ && names_.size() < kFieldsNamed) names_.emplace_back(ClipUtf8(name, kNameShown));
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    error_ = e.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 5: ...": each is one line.
    if (const size_t colon = error_.find(": "); colon != std::string::npos)
      error_ = error_.substr(colon + 2);
    error_ = WithShortQuote(error_);
    return false;
  }

  // The object is whole, and its field null.
  bool FoundNull() const { return error_.empty() && is_null_; }

  absl::StatusOr<std::string> Take() && {
    if (!error_.empty()) return absl::InvalidArgumentError(error_);
    if (!not_text_.empty()) return absl::InvalidArgumentError(not_text_);
    if (text_.has_value()) return *std::move(text_);
    if (const std::string chat = ChatField(); !chat.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("has no text field '", field_, "' but ", chat, ChatNext(chat, field_)));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("has no text field '", field_, "'",
                     names_.empty() ? "" : absl::StrCat("; it has ", absl::StrJoin(names_, ", "))));
  }

 private:
  // Of a name that occurs twice, the last value counts, as for Python.
  bool Other(absl::string_view what = "is not text") {
    if (depth_ == 0) return Fail("is not a JSON object");
    if (depth_ == 1 && at_field_) {
      not_text_ = absl::StrCat("its field '", field_, "' ", what);
      at_field_ = is_null_ = false;
    }
    return true;
  }
  static std::string ChatNext(absl::string_view chat, absl::string_view field) {
    if (chat == "'messages'" || chat == "'conversations'") {
      return ": it is chat: use data.chat, which trains on what the assistant wrote "
             "(`longhaul data check --format chat`)";
    }
    return absl::StrCat(
        ": it is chat. Write each conversation as messages (role, content) into "
        "the field 'messages', for data.chat; or as text into the field '",
        field, "'");
  }
  std::string ChatField() const {
    const auto has = [&](absl::string_view name) {
      return std::find(names_.begin(), names_.end(), name) != names_.end();
    };
    for (const char* name : {"messages", "conversations", "conversation"}) {
      if (has(name)) return absl::StrCat("'", name, "'");
    }
    if (has("prompt") && has("completion")) return "'prompt' and 'completion'";
    if (has("instruction") && has("output")) return "'instruction' and 'output'";
    return "";
  }
  bool Open(bool object) {
    if (depth_ == 0 && !object) return Fail("is not a JSON object");
    if (depth_ == 1 && at_field_) Other();
    if (++depth_ > kJsonDepthMax) return Fail("is nested too deep");
    return true;
  }
  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  const absl::string_view field_;
  int depth_ = 0;
  bool at_field_ = false, is_null_ = false;
  std::optional<std::string> text_;
  std::string error_, not_text_;
  std::vector<std::string> names_;
};

// Half of a surrogate pair at the beginning of `text`, as \uD800.
bool IsHalfSurrogate(absl::string_view text, bool& pair) {
  const auto unit = [&](size_t at) -> int {
    if (text.size() < at + 6 || text[at] != '\\' || text[at + 1] != 'u') return -1;
    int value;
    return absl::SimpleHexAtoi(text.substr(at + 2, 4), &value) ? value : -1;
  };
  const int first = unit(0), second = unit(6);
  pair = first >= 0xD800 && first < 0xDC00 && second >= 0xDC00 && second < 0xE000;
  return !pair && first >= 0xD800 && first < 0xE000;
}

// What Python's json writes and reads, and strict readers refuse, in a form that these read: NaN
// and infinite numbers as 0, half a surrogate pair as `half` (an escape of six bytes). The line
// keeps its length, so that places in it stay.
std::string Tolerated(absl::string_view line, absl::string_view half) {
  std::string result(line);
  const auto blank = [&](size_t at, size_t size) {
    std::fill_n(result.begin() + static_cast<std::ptrdiff_t>(at), size, ' ');
    result[at] = '0';
  };
  bool in_string = false;
  for (size_t at = 0; at < line.size();) {
    size_t size = 1;
    if (in_string && line[at] == '\\') {
      bool pair = false;
      if (IsHalfSurrogate(line.substr(at), pair)) result.replace(at, 6, half.data(), 6);
      size = pair ? 12 : 2;
    } else if (line[at] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      for (const absl::string_view word : {"NaN", "Infinity", "-Infinity"}) {
        if (absl::StartsWith(line.substr(at), word)) blank(at, size = word.size());
      }
      const size_t digits = line.substr(at).find_first_not_of("+-.0123456789eE");
      const absl::string_view number = line.substr(at, digits);
      // Others are as they are, also those that are no numbers.
      double value = 0;
      if (size == 1 && absl::SimpleAtod(number, &value) && !std::isfinite(value))
        blank(at, number.size());
      size = std::max(size, number.size());
    }
    at += size;
  }
  return result;
}

absl::StatusOr<std::string> FindText(absl::string_view line, absl::string_view field,
                                     bool& is_null) {
  FieldFinder finder(field);
  nlohmann::json::sax_parse(line.begin(), line.end(), &finder);
  is_null = finder.FoundNull();
  return std::move(finder).Take();
}

// As TextOfJsonLine. Also tells whether the error is that the field is null.
absl::StatusOr<std::string> TextOrNull(absl::string_view line, absl::string_view field,
                                       bool& is_null) {
  absl::StatusOr<std::string> strict = FindText(line, field, is_null);
  if (strict.ok() || is_null) return strict;
  const absl::StatusOr<std::string> text = FindText(Tolerated(line, "\\uFFFD"), field, is_null);
  if (!text.ok()) return is_null ? text.status() : strict.status();
  const absl::StatusOr<std::string> other = FindText(Tolerated(line, "\\uFFFC"), field, is_null);
  if (other.ok() && *other == *text) return text;
  return absl::InvalidArgumentError(
      absl::StrCat("its field '", field, "' has half of a surrogate pair"));
}

// Where to cut a line that is too long: behind a space in its last half, else before a character of
// UTF-8.
size_t CutAt(absl::string_view text, size_t most) {
  const size_t space = text.rfind(' ', most - 1);
  if (space != absl::string_view::npos && space >= most / 2) return space + 1;
  size_t at = most;
  while (at > most - 4 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80 ? most : at;
}

// Bytes up to a line's end, or a limit.
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}

  // The next line with its end, or its first `most` bytes or more of it (and less than kReadBytes
  // more). False: no more. Valid until the next call.
  absl::StatusOr<bool> Next(size_t most, absl::string_view& line) {
    for (size_t searched = begin_;;) {
      const size_t end = buffer_.find('\n', searched);
      if (end != std::string::npos || buffer_.size() - begin_ > most) {
        const size_t size = (end == std::string::npos ? buffer_.size() : end + 1) - begin_;
        line = absl::string_view(buffer_).substr(begin_, size);
        begin_ += size;
        return true;
      }
      buffer_.erase(0, std::exchange(begin_, 0));
      searched = buffer_.size();
      buffer_.resize(searched + kReadBytes);
      absl::StatusOr<size_t> n =
          stream_->Read(absl::MakeSpan(buffer_.data() + searched, kReadBytes));
      buffer_.resize(searched + n.value_or(0));
      LH_RETURN_IF_ERROR(n.status());
      if (*n > 0) continue;
      line = buffer_;
      begin_ = buffer_.size();
      return !line.empty();
    }
  }
  // Gives back the last `size` bytes of the last line.
  void Return(size_t size) { begin_ -= size; }
  int64_t taken() const { return stream_->taken(); }

 private:
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t begin_ = 0;  // What lies before was given.
};

class TextDocument : public DocumentReader {
 public:
  explicit TextDocument(std::unique_ptr<ByteStream> stream) : lines_(std::move(stream)) {}
  int64_t taken() const override { return lines_.taken(); }

  absl::StatusOr<bool> Next(DocumentPart& part) override {
    absl::string_view line;
    LH_ASSIGN_OR_RETURN(const bool more, lines_.Next(kPieceBytesMax, line));
    if (more) {
      if (line.size() > kPieceBytesMax) {
        const size_t size = CutAt(line, kPieceBytesMax);
        lines_.Return(line.size() - size);
        line = line.substr(0, size);
      }
      part = {std::string(line), false};
      return begun_ = true;
    }
    part = {"", true};
    return std::exchange(begun_, false);  // An empty file has no document.
  }

 private:
  LineReader lines_;
  bool begun_ = false;
};

class TextPieces : public DocumentReader {
 public:
  explicit TextPieces(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}
  int64_t taken() const override { return stream_->taken(); }

  absl::StatusOr<bool> Next(DocumentPart& part) override {
    LH_RETURN_IF_ERROR(Fill());
    if (buffer_.empty()) {
      part = {"", true};
      return std::exchange(begun_, false);
    }
    const size_t size = Size();
    part = {buffer_.substr(0, size), false};
    buffer_.erase(0, size);
    return begun_ = true;
  }

 private:
  static constexpr size_t kMost = 2 * kTextPieceBytes, kCharacterBytes = 4;

  absl::Status Fill() {
    while (!ended_ && buffer_.size() < kMost + kCharacterBytes) {
      const size_t had = buffer_.size();
      buffer_.resize(had + kReadBytes);
      const absl::StatusOr<size_t> n =
          stream_->Read(absl::MakeSpan(buffer_.data() + had, kReadBytes));
      buffer_.resize(had + n.value_or(0));
      LH_RETURN_IF_ERROR(n.status());
      ended_ = *n == 0;
    }
    return absl::OkStatus();
  }
  size_t Size() const {
    const size_t end = buffer_.find('\n', kTextPieceBytes);
    size_t size = std::min(end == std::string::npos ? buffer_.size() : end + 1, kMost);
    // Not inside a character.
    const size_t most = std::min(buffer_.size(), size + kCharacterBytes - 1);
    while (size < most && (static_cast<uint8_t>(buffer_[size]) & 0xC0) == 0x80) ++size;
    return size;
  }

  const std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  bool ended_ = false, begun_ = false;
};

// Refuses text that is not UTF-8. No part ends inside a character.
class Utf8Text : public DocumentReader {
 public:
  Utf8Text(std::string path, std::unique_ptr<DocumentReader> text)
      : path_(std::move(path)), text_(std::move(text)) {}
  int64_t taken() const override { return text_->taken(); }

  absl::StatusOr<bool> Next(DocumentPart& part) override {
    LH_ASSIGN_OR_RETURN(const bool more, text_->Next(part));
    if (!more) return false;
    const size_t characters = Utf8Prefix(part.text);
    bytes_ += static_cast<int64_t>(characters);
    if (characters == part.text.size()) return true;
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": is not UTF-8 text at byte ", bytes_,
        ", which a tokenizer needs: convert it, for example with iconv -f ISO-8859-1 -t UTF-8"));
  }

 private:
  const std::string path_;
  const std::unique_ptr<DocumentReader> text_;
  int64_t bytes_ = 0;  // Those that were found to be characters.
};

class JsonlDocuments : public DocumentReader {
 public:
  // Without a field a line is a document as it is.
  JsonlDocuments(std::string path, std::optional<std::string> field, int64_t line_bytes_max,
                 NullRows nulls, std::unique_ptr<ByteStream> stream)
      : path_(std::move(path)),
        field_(std::move(field)),
        line_bytes_max_(line_bytes_max),
        nulls_(nulls),
        lines_(std::move(stream)) {}
  int64_t taken() const override { return lines_.taken(); }
  int64_t null_rows() const override { return null_rows_; }
  bool CanGoOn() const override { return can_go_on_; }

  absl::StatusOr<bool> Next(DocumentPart& part) override {
    can_go_on_ = false;
    for (;;) {
      absl::string_view line;
      LH_ASSIGN_OR_RETURN(const bool more, lines_.Next(line_bytes_max_, line));
      if (!more) return false;
      ++number_;
      if (number_ == 1) absl::ConsumePrefix(&line, "\xEF\xBB\xBF");
      line = absl::StripAsciiWhitespace(line);
      if (line.empty()) continue;
      LH_ASSIGN_OR_RETURN(const bool is_document, TakeLine(line, part));
      if (is_document) return true;
      ++null_rows_;
    }
  }

 private:
  // False: its text is null, and such rows are skipped.
  absl::StatusOr<bool> TakeLine(absl::string_view line, DocumentPart& part) {
    const auto at_line = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": line ", number_, ": ", what));
    };
    if (static_cast<int64_t>(line.size()) > line_bytes_max_) {
      return at_line(absl::StrCat("is longer than ", line_bytes_max_ >> 20,
                                  " MiB: split this document, or allow longer lines "
                                  "(line_mib_max of this source, --line-mib-max)"));
    }
    bool is_null = false;
    absl::StatusOr<std::string> text =
        field_.has_value() ? TextOrNull(line, *field_, is_null) : std::string(line);
    if (is_null && nulls_ == NullRows::kSkip) return false;
    can_go_on_ = !text.ok();
    if (!text.ok()) return at_line(text.status().message());
    part = {*std::move(text), true, number_};
    return true;
  }

  const std::string path_;
  const std::optional<std::string> field_;
  const int64_t line_bytes_max_;
  const NullRows nulls_;
  LineReader lines_;
  int64_t number_ = 0, null_rows_ = 0;
  bool can_go_on_ = false;
};

}  // namespace

absl::StatusOr<std::string> TextOfJsonLine(absl::string_view line, absl::string_view field) {
  bool is_null = false;
  return TextOrNull(line, field, is_null);
}

absl::StatusOr<std::unique_ptr<DocumentReader>> OpenTextDocument(const std::string& path,
                                                                 TextParts parts, TextBytes bytes) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream, ByteStream::Open(path));
  std::unique_ptr<DocumentReader> text;
  if (parts == TextParts::kPieces) {
    text = std::make_unique<TextPieces>(std::move(stream));
  } else {
    text = std::make_unique<TextDocument>(std::move(stream));
  }
  if (bytes == TextBytes::kUtf8) text = std::make_unique<Utf8Text>(path, std::move(text));
  return text;
}

absl::StatusOr<std::unique_ptr<DocumentReader>> OpenJsonlDocuments(const std::string& path,
                                                                   const std::string& field,
                                                                   int64_t line_bytes_max,
                                                                   NullRows null_rows) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream, ByteStream::Open(path));
  return std::make_unique<JsonlDocuments>(path, field, line_bytes_max, null_rows,
                                          std::move(stream));
}

absl::StatusOr<std::unique_ptr<DocumentReader>> OpenJsonlLines(const std::string& path,
                                                               int64_t line_bytes_max) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream, ByteStream::Open(path));
  return std::make_unique<JsonlDocuments>(path, std::nullopt, line_bytes_max, NullRows::kRefuse,
                                          std::move(stream));
}

}  // namespace longhaul
