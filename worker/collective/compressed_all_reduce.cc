#include "worker/collective/compressed_all_reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

constexpr int64_t kScaleBytes = sizeof(float);

int64_t SignBytes(int64_t elements) { return (elements + 7) / 8; }

absl::Span<std::byte> Bytes(std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
}

float LoadScale(const uint8_t* from) {
  float scale;
  std::memcpy(&scale, from, sizeof(scale));
  return scale;
}

}  // namespace

std::vector<Part> CompressedAllReduce::EvenChunks(int64_t elements, int ranks) {
  const int64_t size = (elements + 8 * ranks - 1) / (8 * ranks) * 8;
  std::vector<Part> chunks;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t first = std::min(rank * size, elements);
    // An empty chunk begins at 0, which is a multiple of 8.
    const int64_t count = std::min(size, elements - first);
    chunks.push_back({count == 0 ? 0 : first, count});
  }
  return chunks;
}

std::vector<int64_t> CompressedAllReduce::Segments(absl::Span<const int64_t> tensors,
                                                   int64_t block) {
  std::vector<int64_t> segments;
  for (const int64_t elements : tensors) {
    const int64_t size = block == 0 ? elements : block;
    for (int64_t first = 0; first < elements; first += size)
      segments.push_back(std::min(size, elements - first));
  }
  return segments;
}

CompressedAllReduce::CompressedAllReduce(Options options)
    : rank_(options.rank),
      scale_(options.scale),
      error_feedback_(options.error_feedback),
      chunks_(std::move(options.chunks)),
      pieces_(chunks_.size()) {
  for (const int64_t size : options.segments) {
    LH_CHECK(size > 0, "a segment is empty");
    segments_.push_back({elements_, size});
    elements_ += size;
  }
  LH_CHECK(rank_ >= 0 && rank_ < static_cast<int>(chunks_.size()), "this rank has no chunk");
  int64_t covered = 0, coded = 0, received = 0;
  for (size_t r = 0; r < chunks_.size(); ++r) {
    const Part& chunk = chunks_[r];
    LH_CHECK(chunk.offset % 8 == 0 && chunk.offset + chunk.size <= elements_,
             "a chunk lies outside the buffer, or begins inside a byte of signs");
    covered += chunk.size;
    for (size_t s = 0; s < segments_.size(); ++s) {
      const int64_t first = std::max(chunk.offset, segments_[s].offset);
      const int64_t end =
          std::min(chunk.offset + chunk.size, segments_[s].offset + segments_[s].size);
      if (first < end) pieces_[r].push_back({static_cast<int>(s), {first, end - first}});
    }
    coded_.push_back({coded, SignBytes(chunk.size) + ScaleBytes(static_cast<int>(r))});
    coded += coded_.back().size;
  }
  LH_CHECK(covered == elements_, "the chunks do not cover the buffer");
  for (size_t r = 0; r < chunks_.size(); ++r) {
    received_.push_back({received, coded_[rank_].size});
    received += coded_[rank_].size;
  }
  worker_error_.resize(elements_);
  server_error_.resize(chunks_[rank_].size);
  coded_bytes_.resize(coded);
  received_bytes_.resize(received);
  CountPresent();
}

int64_t CompressedAllReduce::ScaleBytes(int rank) const {
  return static_cast<int64_t>(pieces_[rank].size()) * kScaleBytes;
}

void CompressedAllReduce::SetAbsent(std::vector<uint8_t> absent) {
  LH_CHECK(static_cast<int64_t>(absent.size()) == SignBytes(elements_), "a mask has another size");
  absent_ = std::move(absent);
  if (std::all_of(absent_.begin(), absent_.end(), [](uint8_t byte) { return byte == 0; }))
    absent_.clear();
  CountPresent();
  ClearAbsent({0, elements_}, worker_error_.data());
  ClearAbsent(chunk(), server_error_.data());
}

void CompressedAllReduce::CountPresent() {
  segment_present_.assign(segments_.size(), 0);
  for (std::vector<Piece>& pieces : pieces_) {
    for (Piece& piece : pieces) {
      piece.present = piece.part.size - CountAbsent(piece.part);
      segment_present_[piece.segment] += piece.present;
    }
  }
}

int64_t CompressedAllReduce::CountAbsent(const Part& part) const {
  int64_t count = 0;
  if (absent_.empty()) return count;
  for (int64_t i = part.offset; i < part.offset + part.size; ++i)
    count += absent_[i / 8] >> (i % 8) & 1;
  return count;
}

// `values` are those of the part. Most bytes of a mask are zero.
void CompressedAllReduce::ClearAbsent(const Part& part, float* values) const {
  if (absent_.empty()) return;
  for (int64_t i = part.offset; i < part.offset + part.size;) {
    if (absent_[i / 8] == 0) {
      i = (i / 8 + 1) * 8;
      continue;
    }
    if ((absent_[i / 8] >> (i % 8) & 1) != 0) values[i - part.offset] = 0;
    ++i;
  }
}

// Also adds up the loss: sum (u - s sign(u))^2 = sum u^2 - 2 s sum |u| + n s^2.
float CompressedAllReduce::ScaleOf(const MagnitudeSums& sums, int64_t present) {
  if (present == 0) return 0;
  const auto n = static_cast<double>(present);
  const auto scale = static_cast<float>(
      scale_ == SignScale::kRootMeanSquare ? std::sqrt(sums.squared / n) : sums.absolute / n);
  const double s = scale;
  loss_.signal_energy += sums.squared;
  loss_.error_energy += std::max(0.0, sums.squared - 2 * s * sums.absolute + n * s * s);
  return scale;
}

// Signs of a chunk are addressed like those of the buffer, since chunks begin at whole bytes.
absl::Status CompressedAllReduce::Run(Communicator& communicator, absl::Span<float> data,
                                      const CallOptions& options) {
  LH_CHECK(static_cast<int64_t>(data.size()) == elements_, "a buffer has another size");
  LH_CHECK(communicator.size() == static_cast<int>(chunks_.size()) && communicator.rank() == rank_,
           "made for another group");
  loss_ = {};
  Compress(data);
  LH_RETURN_IF_ERROR(communicator.AllToAll(Bytes(coded_bytes_), coded_, Bytes(received_bytes_),
                                           received_, options));
  Average(data.subspan(chunk().offset, chunk().size));
  const Part& own = coded_[rank_];
  const absl::Span<std::byte> all = Bytes(coded_bytes_);
  LH_RETURN_IF_ERROR(
      communicator.AllGather(all.subspan(own.offset, own.size), coded_, all, options));
  Decode(data);
  return absl::OkStatus();
}

// The worker's half: writes into coded_bytes_ the part for each rank.
void CompressedAllReduce::Compress(absl::Span<float> data) {
  if (!error_feedback_) std::fill(worker_error_.begin(), worker_error_.end(), 0.0f);
  ClearAbsent({0, elements_}, data.data());
  std::vector<float> scales;
  for (size_t s = 0; s < segments_.size(); ++s) {
    const Part& part = segments_[s];
    const MagnitudeSums sums =
        AddFeedback(part.size, data.data() + part.offset, worker_error_.data() + part.offset);
    scales.push_back(ScaleOf(sums, segment_present_[s]));
  }
  std::fill(coded_bytes_.begin(), coded_bytes_.end(), 0);
  for (size_t r = 0; r < chunks_.size(); ++r) {
    uint8_t* const signs = coded_bytes_.data() + coded_[r].offset;
    uint8_t* to = signs + SignBytes(chunks_[r].size);
    for (const Piece& piece : pieces_[r]) {
      const float scale = scales[piece.segment];
      TakePiece(piece, chunks_[r], scale, worker_error_.data() + piece.part.offset, signs);
      std::memcpy(to, &scale, kScaleBytes);
      to += kScaleBytes;
    }
  }
  ClearAbsent({0, elements_}, worker_error_.data());
}

// Rank k's half: averages what all ranks sent of its chunk, in the order of the ranks, and writes
// the result into its part of coded_bytes_. `mean` is memory for the chunk.
void CompressedAllReduce::Average(absl::Span<float> mean) {
  if (!error_feedback_) std::fill(server_error_.begin(), server_error_.end(), 0.0f);
  const Part& own = chunk();
  const auto ranks = static_cast<float>(chunks_.size());
  std::fill(mean.begin(), mean.end(), 0.0f);
  for (const Part& part : received_) {
    const uint8_t* const signs = received_bytes_.data() + part.offset;
    const uint8_t* from = signs + SignBytes(own.size);
    for (const Piece& piece : pieces_[rank_]) {
      const int64_t first = piece.part.offset - own.offset;
      AddSigns(piece.part.size, LoadScale(from) / ranks, signs + first / 8,
               static_cast<int>(first % 8), mean.data() + first);
      from += kScaleBytes;
    }
  }
  ClearAbsent(own, mean.data());
  uint8_t* const signs = coded_bytes_.data() + coded_[rank_].offset;
  std::fill_n(signs, coded_[rank_].size, 0);
  uint8_t* to = signs + SignBytes(own.size);
  for (const Piece& piece : pieces_[rank_]) {
    const int64_t first = piece.part.offset - own.offset;
    float* const error = server_error_.data() + first;
    const MagnitudeSums sums = AddFeedback(piece.part.size, mean.data() + first, error);
    const float scale = ScaleOf(sums, piece.present);
    TakePiece(piece, own, scale, error, signs);
    std::memcpy(to, &scale, kScaleBytes);
    to += kScaleBytes;
  }
  ClearAbsent(own, server_error_.data());
}

void CompressedAllReduce::TakePiece(const Piece& piece, const Part& chunk, float scale,
                                    float* error, uint8_t* signs) {
  const int64_t first = piece.part.offset - chunk.offset;
  TakeSigns(piece.part.size, scale, error, signs + first / 8, static_cast<int>(first % 8));
}

void CompressedAllReduce::Decode(absl::Span<float> data) const {
  for (size_t r = 0; r < chunks_.size(); ++r) {
    const uint8_t* const signs = coded_bytes_.data() + coded_[r].offset;
    const uint8_t* from = signs + SignBytes(chunks_[r].size);
    for (const Piece& piece : pieces_[r]) {
      const int64_t first = piece.part.offset - chunks_[r].offset;
      DecodeSigns(piece.part.size, LoadScale(from), signs + first / 8, static_cast<int>(first % 8),
                  data.data() + piece.part.offset);
      from += kScaleBytes;
    }
  }
  ClearAbsent({0, elements_}, data.data());
}

}  // namespace longhaul
