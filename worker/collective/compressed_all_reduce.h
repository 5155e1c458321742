// The mean over ranks of a buffer of floats, with one bit for each element in both directions and
// error feedback at both ends: the compressed allreduce of 1-bit Adam (Tang et al., arXiv
// 2102.02888, algorithm 1). For n ranks with buffers x_i:
//
//   worker i      u_i = x_i + e_i;  sends C(u_i);  e_i = u_i - C(u_i)
//   rank k, for its chunk of the buffer
//                 w_k = (1/n) sum_i C(u_i) + E_k;  sends C(w_k);  E_k = w_k - C(w_k)
//   every rank    x = C(w_0), C(w_1), ... : the same bytes everywhere
//
// C(x) = scale * sign(x). Elements of one segment (a tensor, or a block of one) share a scale: a
// worker's over the whole segment, rank k's over its part of the segment. Scales count only
// elements that are present, so neither padding nor absent elements make them smaller. They are
// sent with the signs, so a call is two collectives. For one segment over n ranks a rank sends 2 (n
// - 1) / n of a bit for each element, and 8 (n - 1) bytes.
//
// An object keeps one rank's feedback between calls. Not thread-safe. Values are finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/collective/communicator.h"
#include "worker/collective/parts.h"
#include "worker/collective/sign_kernels.h"

namespace longhaul {

enum class SignScale {
  // ||x|| / ||sign(x)||, as in the paper: keeps the norm of a segment.
  kRootMeanSquare,
  // Has the least squared error (1-bit SGD, Seide et al. 2014).
  kMeanMagnitude,
};

class CompressedAllReduce {
 public:
  struct Options {
    int rank = 0;
    // The number of elements of each segment, one after another. Positive.
    std::vector<int64_t> segments;
    // By rank, in elements: the chunk that it averages. Chunks cover the buffer without overlap,
    // and each begins at a multiple of 8.
    std::vector<Part> chunks;
    SignScale scale = SignScale::kRootMeanSquare;
    // False: errors are not fed back. Only for comparisons.
    bool error_feedback = true;
  };
  // Divides `elements` over `ranks` into chunks of one size, which is the least multiple of 8 that
  // is enough. The last ones may be shorter or empty.
  static std::vector<Part> EvenChunks(int64_t elements, int ranks);
  // Cuts `tensors` into segments of at most `block` elements. 0: not cut.
  static std::vector<int64_t> Segments(absl::Span<const int64_t> tensors, int64_t block);

  explicit CompressedAllReduce(Options options);

  // From now on the elements whose bit is set (bit i % 8 of byte i / 8) are absent: their result is
  // zero, and they do not count. The same on every rank.
  void SetAbsent(std::vector<uint8_t> absent);

  // data = the mean. Collective: two calls of the communicator. Errors: those of the communicator;
  // then the feedback is unspecified.
  absl::Status Run(Communicator& communicator, absl::Span<float> data, const CallOptions& options);

  int64_t elements() const { return elements_; }
  // The feedback: e of the whole buffer, E of this rank's chunk.
  absl::Span<float> worker_error() { return absl::MakeSpan(worker_error_); }
  absl::Span<float> server_error() { return absl::MakeSpan(server_error_); }
  const Part& chunk() const { return chunks_[rank_]; }

  // What compressing lost in the last Run, at both ends: the sums of (u - C(u))^2 and of u^2.
  struct Loss {
    double error_energy = 0, signal_energy = 0;
  };
  const Loss& loss() const { return loss_; }
  // Bytes that are sent of a chunk, by the rank that averages it; and how many of them are scales.
  int64_t CodedBytes(int rank) const { return coded_[rank].size; }
  int64_t ScaleBytes(int rank) const;

 private:
  // A part of a segment in a chunk.
  struct Piece {
    int segment;
    // Its place in the buffer.
    Part part;
    // Elements that are not absent.
    int64_t present = 0;
  };

  float ScaleOf(const MagnitudeSums& sums, int64_t present);
  void ClearAbsent(const Part& part, float* values) const;
  int64_t CountAbsent(const Part& part) const;
  void CountPresent();
  void Compress(absl::Span<float> data);
  void Average(absl::Span<float> mean);
  void Decode(absl::Span<float> data) const;
  // Sets its bits in the signs of its chunk.
  static void TakePiece(const Piece& piece, const Part& chunk, float scale, float* error,
                        uint8_t* signs);

  const int rank_;
  const SignScale scale_;
  const bool error_feedback_;
  std::vector<Part> segments_;
  // By rank.
  std::vector<Part> chunks_;
  // By rank, in bytes: in coded_bytes_ and in received_bytes_.
  std::vector<Part> coded_, received_;
  // By the rank that averages them.
  std::vector<std::vector<Piece>> pieces_;
  std::vector<int64_t> segment_present_;
  // Empty if no element is absent.
  std::vector<uint8_t> absent_;
  int64_t elements_ = 0;
  std::vector<float> worker_error_, server_error_;
  std::vector<uint8_t> coded_bytes_, received_bytes_;
  Loss loss_;
};

}  // namespace longhaul
