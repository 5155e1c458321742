#include "coordinator/service/plan_streams.h"

#include <limits>
#include <utility>

namespace longhaul::coordinator {

void PlanStreams::Add(const Rank& rank, std::shared_ptr<PlanStream> stream) {
  if (!closed_.ok()) return stream->End(closed_);
  Entry& entry = streams_[{rank.job, rank.pool, rank.rank}];
  if (entry.stream) entry.stream->End(absl::AbortedError("the rank has opened a newer stream"));
  entry = {rank.incarnation, std::move(stream)};
}

// `visit` returns whether the stream is to be forgotten.
template <typename Visit>
void PlanStreams::ForJob(absl::string_view job, Visit visit) {
  auto it = streams_.lower_bound(Key(job, "", std::numeric_limits<int>::min()));
  while (it != streams_.end() && std::get<0>(it->first) == job) {
    it = visit(std::get<1>(it->first), it->second) ? streams_.erase(it) : std::next(it);
  }
}

void PlanStreams::SendToJob(absl::string_view job, const v1::PlanEvent& event) {
  ForJob(job, [&](const std::string& pool, Entry& entry) {
    entry.stream->Send(event);
    return entry.stream->ended();
  });
}

void PlanStreams::SendToPool(absl::string_view job, absl::string_view pool,
                             const v1::PlanEvent& event) {
  ForJob(job, [&](const std::string& of, Entry& entry) {
    if (of == pool) entry.stream->Send(event);
    return false;
  });
}

void PlanStreams::EndStreamsOf(absl::string_view job, const absl::Status& status) {
  ForJob(job, [&](const std::string& pool, Entry& entry) {
    entry.stream->End(status);
    return true;
  });
}

void PlanStreams::EndPool(absl::string_view job, absl::string_view pool,
                          absl::string_view incarnation, const absl::Status& status) {
  ForJob(job, [&](const std::string& of, Entry& entry) {
    if (of != pool || entry.incarnation != incarnation) return false;
    entry.stream->End(status);
    return true;
  });
}

void PlanStreams::EndAll(const absl::Status& status) {
  closed_ = status;
  for (auto& [key, entry] : streams_) entry.stream->End(status);
  streams_.clear();
}

void PlanStreams::Sweep() {
  std::erase_if(streams_, [](const auto& item) { return item.second.stream->ended(); });
}

}  // namespace longhaul::coordinator
