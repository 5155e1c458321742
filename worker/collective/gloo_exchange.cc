#include "worker/collective/gloo_exchange.h"

#include <algorithm>
#include <utility>

#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "worker/collective/rank_order_sum.h"

namespace longhaul {
namespace {

// Messages are sent in segments, several at a time for each peer, so that sums overlap the transfer
// of later segments. Larger segments cost less, but those of reductions are kept in scratch memory
// until they are added.
constexpr int64_t kSwapSegmentBytes = 16 << 20;
constexpr int kSwapsInFlight = 2;
constexpr int64_t kAddendBytesMax = 4 << 20, kAddendBytesMin = 256 << 10;
constexpr int64_t kScratchBytes = 32 << 20;

// Two ranks need more segments in flight to keep the line busy while they sum. More ranks have
// enough peers for that.
int AddendsInFlight(int ranks) { return ranks <= 2 ? 4 : 2; }

int64_t AddendBytes(int ranks) {
  return std::clamp(kScratchBytes / (AddendsInFlight(ranks) * ranks), kAddendBytesMin,
                    kAddendBytesMax);
}

// Segment number `segment` of a part; empty after its end.
Part SegmentOf(Part part, int64_t segment, int64_t segment_size) {
  const int64_t begin = std::min(segment * segment_size, part.size);
  return {part.offset + begin, std::min(segment_size, part.size - begin)};
}

int64_t SegmentCount(absl::Span<const Part> parts, int64_t segment_size) {
  int64_t largest = 0;
  for (const Part& part : parts) largest = std::max(largest, part.size);
  return CeilDiv(largest, segment_size);
}

// 31 bits of the operation, 25 of the size, 8 of the segment. The size is included because gloo
// ends the process if a message is longer than its receive. With it, ranks that disagree on sizes
// wait for different slots until the deadline.
uint64_t Slot(uint64_t operation, int64_t segment, int64_t bytes) {
  static_assert(kSwapSegmentBytes < 1 << 25 && kAddendBytesMax < 1 << 25);
  return operation << 33 | static_cast<uint64_t>(bytes) << 8 | (segment & 0xff);
}

// With two in flight: start(0) start(1) finish(0) start(2) finish(1) ...
template <typename Start, typename Finish>
absl::Status RunPipeline(int64_t segments, int in_flight, Start start, Finish finish) {
  for (int64_t s = 0; s < segments + in_flight; ++s) {
    if (s >= in_flight) LH_RETURN_IF_ERROR(finish(s - in_flight));
    if (s < segments) LH_RETURN_IF_ERROR(start(s));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GlooExchange::Swap(const std::byte* input, absl::Span<const Part> sends,
                                std::byte* output, absl::Span<const Part> receives) {
  // Also checked if there is nothing to send.
  LH_RETURN_IF_ERROR(mesh_.status());
  std::vector<Transfers> lanes(kSwapsInFlight);
  const auto start = [&](int64_t s) -> absl::Status {
    Transfers& lane = lanes[s % kSwapsInFlight];
    for (int step = 1; step < mesh_.size(); ++step) {
      const int from = (mesh_.rank() - step + mesh_.size()) % mesh_.size();
      const Part piece = SegmentOf(receives[from], s, kSwapSegmentBytes);
      LH_RETURN_IF_ERROR(StartReceive(from, Slot(operation_, s, piece.size), output + piece.offset,
                                      piece.size, &lane));
    }
    for (int step = 1; step < mesh_.size(); ++step) {
      const int to = (mesh_.rank() + step) % mesh_.size();
      const Part piece = SegmentOf(sends[to], s, kSwapSegmentBytes);
      LH_RETURN_IF_ERROR(
          StartSend(to, Slot(operation_, s, piece.size), input + piece.offset, piece.size, &lane));
    }
    return absl::OkStatus();
  };
  const auto finish = [&](int64_t s) { return WaitAll(lanes[s % kSwapsInFlight]); };
  const int64_t segments =
      std::max(SegmentCount(sends, kSwapSegmentBytes), SegmentCount(receives, kSwapSegmentBytes));
  return RunPipeline(segments, kSwapsInFlight, start, finish);
}

template <typename T>
absl::Status GlooExchange::Reduce(const T* input, absl::Span<const Part> parts, T* output,
                                  const uint64_t* gathering) {
  LH_RETURN_IF_ERROR(mesh_.status());
  const int64_t segment = AddendBytes(mesh_.size()) / sizeof(T);
  const int size = mesh_.size(), rank = mesh_.rank(), in_flight = AddendsInFlight(size);
  const Part own = parts[rank];
  // The peers' values arrive here: each lane has a row for each rank. This rank's own row is its
  // input.
  const int64_t row = std::min(own.size, segment);
  scratch_.resize(std::max<size_t>(scratch_.size(), in_flight * size * row * sizeof(T)));
  const auto addend = [&](int64_t s, int from) {
    return reinterpret_cast<T*>(scratch_.data()) + (s % in_flight * size + from) * row;
  };
  std::vector<Transfers> receives(in_flight), sends(in_flight);
  // Sums are sent and received. Those of a segment may come until the pipeline is twice as many
  // segments further.
  std::vector<Transfers> sums(2 * in_flight);
  const auto sums_of = [&](int64_t s) -> Transfers& { return sums[s % (2 * in_flight)]; };

  const auto start = [&](int64_t s) -> absl::Status {
    const int lane = s % in_flight;
    const int64_t own_bytes = SegmentOf(own, s, segment).size * sizeof(T);
    for (int step = 1; step < size; ++step) {
      const int from = (rank - step + size) % size;
      LH_RETURN_IF_ERROR(StartReceive(from, Slot(operation_, s, own_bytes), addend(s, from),
                                      own_bytes, &receives[lane]));
      if (gathering == nullptr) continue;
      // The new value overwrites what this rank has sent from there. That was sent already, since
      // the sum contains it.
      const Part piece = SegmentOf(parts[from], s, segment);
      const int64_t bytes = piece.size * sizeof(T);
      LH_RETURN_IF_ERROR(StartReceive(from, Slot(*gathering, s, bytes),
                                      output + (piece.offset - own.offset), bytes, &sums_of(s)));
    }
    for (int step = 1; step < size; ++step) {
      const int to = (rank + step) % size;
      const Part piece = SegmentOf(parts[to], s, segment);
      const int64_t bytes = piece.size * sizeof(T);
      LH_RETURN_IF_ERROR(
          StartSend(to, Slot(operation_, s, bytes), input + piece.offset, bytes, &sends[lane]));
    }
    return absl::OkStatus();
  };
  const auto finish = [&](int64_t s) -> absl::Status {
    const int lane = s % in_flight;
    LH_RETURN_IF_ERROR(WaitAll(receives[lane]));
    const Part piece = SegmentOf(own, s, segment);
    T* const sum = output + (piece.offset - own.offset);
    std::vector<const T*> sources(size);
    for (int r = 0; r < size; ++r) sources[r] = r == rank ? input + piece.offset : addend(s, r);
    RankOrderSum<T>(sources, sum, piece.size, team_);
    if (gathering != nullptr) {
      const int64_t bytes = piece.size * sizeof(T);
      for (int step = 1; step < size; ++step) {
        LH_RETURN_IF_ERROR(
            StartSend((rank + step) % size, Slot(*gathering, s, bytes), sum, bytes, &sums_of(s)));
      }
      if (s >= in_flight) LH_RETURN_IF_ERROR(WaitAll(sums_of(s - in_flight)));
    }
    return WaitAll(sends[lane]);
  };
  LH_RETURN_IF_ERROR(RunPipeline(SegmentCount(parts, segment), in_flight, start, finish));
  for (Transfers& last : sums) LH_RETURN_IF_ERROR(WaitAll(last));
  return absl::OkStatus();
}

template absl::Status GlooExchange::Reduce(const float*, absl::Span<const Part>, float*,
                                           const uint64_t*);
template absl::Status GlooExchange::Reduce(const double*, absl::Span<const Part>, double*,
                                           const uint64_t*);

absl::Status GlooExchange::StartSend(int peer, uint64_t slot, const void* data, int64_t bytes,
                                     Transfers* transfers) {
  if (bytes == 0) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(auto transfer, mesh_.Send(peer, slot, data, bytes));
  transfers->push_back(std::move(transfer));
  return absl::OkStatus();
}

absl::Status GlooExchange::StartReceive(int peer, uint64_t slot, void* data, int64_t bytes,
                                        Transfers* transfers) {
  if (bytes == 0) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(auto transfer, mesh_.Receive(peer, slot, data, bytes));
  transfers->push_back(std::move(transfer));
  return absl::OkStatus();
}

absl::Status GlooExchange::WaitAll(Transfers& transfers) {
  for (const auto& transfer : transfers) LH_RETURN_IF_ERROR(mesh_.Wait(*transfer, deadline_));
  transfers.clear();
  return absl::OkStatus();
}

}  // namespace longhaul
