#include "worker/data/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/io/file_error.h"

namespace longhaul {
namespace {

constexpr size_t kInputBytes = 1 << 18;
constexpr absl::string_view kGzipMagic = "\x1f\x8b", kZstdMagic = "\x28\xb5\x2f\xfd";
// Behind a first byte of 0x50 to 0x5f. pzstd begins its files with such a frame.
constexpr absl::string_view kSkippableMagicTail = "\x2a\x4d\x18";

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

class InputFile {
 public:
  InputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), taken_(other.taken_) {}
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile() {
    if (fd_ >= 0) close(fd_);
  }
  static absl::StatusOr<InputFile> Open(const std::string& path) {
    // Without O_NONBLOCK, opening a named pipe would block.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return FailedOpen(errno, path);
    InputFile file(path, fd);
    struct stat info;
    if (fstat(fd, &info) != 0)
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", path));
    if (!S_ISREG(info.st_mode)) return Damaged(path, "not a regular file");
    return file;
  }
  absl::StatusOr<size_t> Read(absl::Span<char> out) {
    ssize_t n;
    do {
      n = read(fd_, out.data(), out.size());
    } while (n < 0 && errno == EINTR);
    if (n < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_));
    taken_ += n;
    return static_cast<size_t>(n);
  }
  absl::StatusOr<Compression> Peek() const {
    char first[4] = {};
    const ssize_t n = pread(fd_, first, sizeof(first), 0);
    if (n < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_));
    const absl::string_view bytes(first, n);
    if (bytes.substr(0, 2) == kGzipMagic) return Compression::kGzip;
    if (bytes == kZstdMagic) return Compression::kZstd;
    if (bytes.size() == 4 && bytes.substr(1) == kSkippableMagicTail && (bytes[0] & 0xf0) == 0x50)
      return Compression::kZstd;
    return Compression::kNone;
  }
  const std::string& path() const { return path_; }
  int64_t taken() const { return taken_; }

 private:
  std::string path_;
  int fd_;
  int64_t taken_ = 0;
};

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(InputFile file) : file_(std::move(file)) {}
  absl::StatusOr<size_t> Read(absl::Span<char> out) override { return file_.Read(out); }
  int64_t taken() const override { return file_.taken(); }

 private:
  InputFile file_;
};

class GzipStream : public ByteStream {
 public:
  explicit GzipStream(InputFile file) : file_(std::move(file)), input_(kInputBytes) {
    ready_ = inflateInit2(&stream_, 15 + 16) == Z_OK;  // 16: gzip's header and checksum.
  }
  ~GzipStream() override { inflateEnd(&stream_); }
  int64_t taken() const override { return file_.taken(); }

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    if (!ready_) return absl::ResourceExhaustedError("no memory for zlib");
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = out.size();
    while (stream_.avail_out > 0) {
      if (stream_.avail_in == 0) {
        LH_ASSIGN_OR_RETURN(const size_t n, file_.Read(absl::MakeSpan(input_)));
        if (n == 0) break;
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = n;
      }
      // Another member follows.
      if (ended_) {
        inflateReset(&stream_);
        ended_ = false;
      }
      const int code = inflate(&stream_, Z_NO_FLUSH);
      ended_ = code == Z_STREAM_END;
      if (code == Z_MEM_ERROR) return absl::ResourceExhaustedError("no memory for zlib");
      if (code != Z_OK && code != Z_STREAM_END) {
        return Damaged(file_.path(), absl::StrCat("damaged gzip data near byte ", file_.taken(),
                                                  ": ", stream_.msg == nullptr ? "" : stream_.msg));
      }
    }
    const size_t filled = out.size() - stream_.avail_out;
    if (filled == 0 && !ended_)
      return Damaged(file_.path(), "the gzip data ends early: the file is truncated");
    return filled;
  }

 private:
  InputFile file_;
  std::vector<char> input_;
  z_stream stream_ = {};
  bool ready_ = false, ended_ = false;
};

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(InputFile file)
      : file_(std::move(file)), input_(kInputBytes), context_(ZSTD_createDCtx()) {}
  ~ZstdStream() override { ZSTD_freeDCtx(context_); }
  int64_t taken() const override { return file_.taken(); }

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    if (context_ == nullptr) return absl::ResourceExhaustedError("no memory for zstd");
    ZSTD_outBuffer result = {out.data(), out.size(), 0};
    while (result.pos < result.size) {
      if (given_.pos == given_.size) {
        LH_ASSIGN_OR_RETURN(const size_t n, file_.Read(absl::MakeSpan(input_)));
        given_ = {input_.data(), n, 0};
        // Within a frame the decoder may have more output without further input. After one it
        // would begin another.
        if (n == 0 && left_ == 0) break;
      }
      const size_t before = result.pos, taken = given_.pos;
      const size_t code = ZSTD_decompressStream(context_, &result, &given_);
      if (ZSTD_isError(code)) {
        return Damaged(file_.path(), absl::StrCat("damaged zstd data near byte ", file_.taken(),
                                                  ": ", ZSTD_getErrorName(code)));
      }
      left_ = code;
      if (result.pos == before && given_.pos == taken) break;
    }
    if (result.pos == 0 && left_ != 0)
      return Damaged(file_.path(), "the zstd data ends early: the file is truncated");
    return result.pos;
  }

 private:
  InputFile file_;
  std::vector<char> input_;
  ZSTD_DCtx* const context_;
  ZSTD_inBuffer given_ = {nullptr, 0, 0};
  size_t left_ = 0;  // 0: a frame has ended.
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::Open(const std::string& path) {
  LH_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  LH_ASSIGN_OR_RETURN(const Compression compression, file.Peek());
  switch (compression) {
    case Compression::kGzip:
      return std::make_unique<GzipStream>(std::move(file));
    case Compression::kZstd:
      return std::make_unique<ZstdStream>(std::move(file));
    default:
      return std::make_unique<PlainStream>(std::move(file));
  }
}

absl::StatusOr<Compression> CompressionOf(const std::string& path) {
  LH_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  return file.Peek();
}

}  // namespace longhaul
