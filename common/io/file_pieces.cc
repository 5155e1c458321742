#include "common/io/file_pieces.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"

namespace longhaul {

FilePieces::FilePieces(const File* file, int64_t from, int64_t to)
    : file_(*file), thread_([this, from, to] { Read(from, to); }) {}

FilePieces::~FilePieces() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

absl::StatusOr<FilePiece> FilePieces::Next() {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ended_ || !pieces_.empty();
  };
  mutex_.Await(absl::Condition(&ready));
  if (pieces_.empty()) {
    if (!failed_.ok()) return failed_;
    return FilePiece();
  }
  FilePiece piece = std::move(pieces_.front());
  pieces_.pop_front();
  return piece;
}

bool FilePieces::AwaitRoom() {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || pieces_.size() < kAhead;
  };
  mutex_.Await(absl::Condition(&ready));
  return !stopping_;
}

void FilePieces::Read(int64_t from, int64_t to) {
  absl::Status read;
  for (int64_t at = from; at < to && read.ok() && AwaitRoom();) {
    const auto size = static_cast<size_t>(std::min(kPieceBytes, to - at));
    FilePiece piece{std::make_unique_for_overwrite<char[]>(size), size};
    read = file_.ReadExactly(at, absl::MakeSpan(piece.bytes.get(), size));
    if (!read.ok()) break;
    at += static_cast<int64_t>(size);
    absl::MutexLock lock(&mutex_);
    pieces_.push_back(std::move(piece));
  }
  absl::MutexLock lock(&mutex_);
  failed_ = read;
  ended_ = true;
}

}  // namespace longhaul
