#include "worker/data/documents.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
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

  bool null() override { return Other(); }
  bool boolean(bool) override { return Other(); }
  bool number_integer(number_integer_t) override { return Other(); }
  bool number_unsigned(number_unsigned_t) override { return Other(); }
  bool number_float(number_float_t, const string_t&) override { return Other(); }
  bool binary(binary_t&) override { return Other(); }
  bool string(string_t& value) override {
    if (depth_ != 1 || !at_field_) return Other();
    text_ = std::move(value);
    at_field_ = false;
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

  absl::StatusOr<std::string> Take() && {
    if (!error_.empty()) return absl::InvalidArgumentError(error_);
    if (text_.has_value()) return *std::move(text_);
    return absl::InvalidArgumentError(
        absl::StrCat("has no text field '", field_, "'",
                     names_.empty() ? "" : absl::StrCat("; it has ", absl::StrJoin(names_, ", "))));
  }

 private:
  bool Other() {
    if (depth_ == 0) return Fail("is not a JSON object");
    if (depth_ == 1 && at_field_) return Fail(absl::StrCat("its field '", field_, "' is not text"));
    return true;
  }
  bool Open(bool object) {
    if (depth_ == 0 && !object) return Fail("is not a JSON object");
    if (depth_ == 1 && at_field_) return Other();
    if (++depth_ > kJsonDepthMax) return Fail("is nested too deep");
    return true;
  }
  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  const absl::string_view field_;
  int depth_ = 0;
  bool at_field_ = false;
  std::optional<std::string> text_;
  std::string error_;
  std::vector<std::string> names_;
};

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
  JsonlDocuments(std::string path, std::string field, int64_t line_bytes_max,
                 std::unique_ptr<ByteStream> stream)
      : path_(std::move(path)),
        field_(std::move(field)),
        line_bytes_max_(line_bytes_max),
        lines_(std::move(stream)) {}
  int64_t taken() const override { return lines_.taken(); }
  bool CanGoOn() const override { return can_go_on_; }

  absl::StatusOr<bool> Next(DocumentPart& part) override {
    can_go_on_ = false;
    absl::string_view line;
    do {
      LH_ASSIGN_OR_RETURN(const bool more, lines_.Next(line_bytes_max_, line));
      if (!more) return false;
      ++number_;
      if (number_ == 1) absl::ConsumePrefix(&line, "\xEF\xBB\xBF");
      line = absl::StripAsciiWhitespace(line);
    } while (line.empty());
    const auto at_line = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": line ", number_, ": ", what));
    };
    if (static_cast<int64_t>(line.size()) > line_bytes_max_) {
      return at_line(absl::StrCat("is longer than ", line_bytes_max_ >> 20,
                                  " MiB: split this document, or allow longer lines "
                                  "(line_mib_max of this source, --line-mib-max)"));
    }
    absl::StatusOr<std::string> text = TextOfJsonLine(line, field_);
    can_go_on_ = !text.ok();
    if (!text.ok()) return at_line(text.status().message());
    part = {*std::move(text), true};
    return true;
  }

 private:
  const std::string path_, field_;
  const int64_t line_bytes_max_;
  LineReader lines_;
  int64_t number_ = 0;
  bool can_go_on_ = false;
};

}  // namespace

absl::StatusOr<std::string> TextOfJsonLine(absl::string_view line, absl::string_view field) {
  FieldFinder finder(field);
  nlohmann::json::sax_parse(line.begin(), line.end(), &finder);
  return std::move(finder).Take();
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
                                                                   int64_t line_bytes_max) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream, ByteStream::Open(path));
  return std::make_unique<JsonlDocuments>(path, field, line_bytes_max, std::move(stream));
}

}  // namespace longhaul
