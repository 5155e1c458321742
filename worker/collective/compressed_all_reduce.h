// The mean over ranks of a buffer of floats, with one bit an element on the way in and on the way out
// and error feedback at both ends: the compressed allreduce of 1-bit Adam (Tang et al., arXiv
// 2102.02888, algorithm 1). For n ranks with buffers x_i:
//
//   worker i      u_i = x_i + e_i;  sends C(u_i);  e_i = u_i - C(u_i)
//   rank k, for its chunk of the buffer
//                 w_k = (1/n) sum_i C(u_i) + E_k;  sends C(w_k);  E_k = w_k - C(w_k)
//   every rank    x = C(w_0), C(w_1), ... : the same bytes everywhere
//
// C(x) = scale * sign(x), where elements of one segment (a tensor, or a block of one) share a scale:
// worker's over the whole segment, rank k's over its part of it. Scales count the elements that are
// there: neither padding nor absent ones dilute them. They travel with the signs, so a call is two
// collectives. What a rank sends for one segment over n ranks: 2 (n - 1) / n of a bit an element, and
// 8 (n - 1) bytes.
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
  kRootMeanSquare,  // ||x|| / ||sign(x)||, the paper's: keeps the norm of a segment.
  kMeanMagnitude,   // Least squared error (1-bit SGD, Seide et al. 2014).
};

class CompressedAllReduce {
 public:
  struct Options {
    int rank = 0;
    // Elements of each segment, one after another. Positive.
    std::vector<int64_t> segments;
    // By rank, in elements: what it averages. They cover the buffer without overlap; each begins at a
    // multiple of 8.
    std::vector<Part> chunks;
    SignScale scale = SignScale::kRootMeanSquare;
    // Off: what is lost stays lost. For comparisons alone.
    bool error_feedback = true;
  };
  // `elements` over `ranks`, in chunks of one size that is the least multiple of 8, the last ones
  // shorter or empty.
  static std::vector<Part> EvenChunks(int64_t elements, int ranks);
  // `tensors` cut into segments of at most `block` elements. 0: not cut.
  static std::vector<int64_t> Segments(absl::Span<const int64_t> tensors, int64_t block);

  explicit CompressedAllReduce(Options options);

  // Elements whose bit is set (bit i % 8 of byte i / 8) are absent from now on: they come out as zero,
  // and count nowhere. The same on every rank.
  void SetAbsent(std::vector<uint8_t> absent);

  // data = the mean. Collective, two calls of the communicator. Errors: those of the communicator;
  // the feedback is then unspecified.
  absl::Status Run(Communicator& communicator, absl::Span<float> data, const CallOptions& options);

  int64_t elements() const { return elements_; }
  // What was lost and is owed: e of the whole buffer, E of this rank's chunk.
  absl::Span<float> worker_error() { return absl::MakeSpan(worker_error_); }
  absl::Span<float> server_error() { return absl::MakeSpan(server_error_); }
  const Part& chunk() const { return chunks_[rank_]; }

  // How much compressing lost in the last Run, at both ends: sums of (u - C(u))^2 and of u^2.
  struct Loss {
    double error_energy = 0, signal_energy = 0;
  };
  const Loss& loss() const { return loss_; }
  // Bytes of a chunk on the wire, by the rank that averages it; of them, those of scales.
  int64_t CodedBytes(int rank) const { return coded_[rank].size; }
  int64_t ScaleBytes(int rank) const;

 private:
  // A part of a segment in a chunk.
  struct Piece {
    int segment;
    Part part;            // Of the buffer.
    int64_t present = 0;  // Elements that are not absent.
  };

  float ScaleOf(const MagnitudeSums& sums, int64_t present);
  void ClearAbsent(const Part& part, float* values) const;
  int64_t CountAbsent(const Part& part) const;
  void CountPresent();
  void Compress(absl::Span<float> data);
  void Average(absl::Span<float> mean);
  void Decode(absl::Span<float> data) const;
  // Its bits in the signs of its chunk.
  static void TakePiece(const Piece& piece, const Part& chunk, float scale, float* error,
                        uint8_t* signs);

  const int rank_;
  const SignScale scale_;
  const bool error_feedback_;
  std::vector<Part> segments_;
  std::vector<Part> chunks_;            // By rank.
  std::vector<Part> coded_, received_;  // By rank, in bytes: in coded_bytes_, in received_bytes_.
  std::vector<std::vector<Piece>> pieces_;  // By the rank that averages them.
  std::vector<int64_t> segment_present_;
  std::vector<uint8_t> absent_;  // Empty: none is.
  int64_t elements_ = 0;
  std::vector<float> worker_error_, server_error_;
  std::vector<uint8_t> coded_bytes_, received_bytes_;
  Loss loss_;
};

}  // namespace longhaul
