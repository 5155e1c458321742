#include "coordinator/service/log_hub.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace longhaul::coordinator {
namespace {

v1::ServeLogsResponse StopOf(int64_t reader) {
  v1::ServeLogsResponse stop;
  stop.set_reader(reader);
  stop.set_stop(true);
  return stop;
}

}  // namespace

class LogHub::Outbox {
 public:
  void Add(const std::shared_ptr<LogSource>& to, v1::ServeLogsResponse message) {
    letters_.emplace_back(to, std::move(message));
  }
  // Without the lock.
  void Send() {
    for (const auto& [to, message] : letters_) to->Send(message);
  }

 private:
  std::vector<std::pair<std::shared_ptr<LogSource>, v1::ServeLogsResponse>> letters_;
};

void LogHub::Read(const v1::FollowLogsRequest& request, std::shared_ptr<ReaderStream> stream) {
  Outbox out;
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return stream->End(closed_);
    Sweep(out);
    if (readers_.size() >= kReadersMax)
      return stream->End(absl::ResourceExhaustedError(absl::StrCat(
          "too many clients are reading logs (limit ", kReadersMax, "): try again in 5 s")));
    const int64_t id = next_id_++;
    Reader reader{.request = request, .stream = std::move(stream)};
    reader.request.clear_positions();
    for (const v1::LogPosition& at : request.positions())
      reader.positions[{at.pool(), at.node()}] = at;
    const auto added = readers_.emplace(id, std::move(reader)).first;
    for (const auto& [source_id, source] : sources_) Ask(id, added->second, source_id, source, out);
    if (added->second.asked.empty() && !request.follow()) {
      added->second.stream->End(absl::OkStatus());
      readers_.erase(added);
    }
  }
  out.Send();
}

void LogHub::Ask(int64_t reader_id, Reader& reader, int64_t source_id, const Source& source,
                 Outbox& out) {
  const std::string& pool = reader.request.pool();
  if (!pool.empty() && pool != source.pool) return;
  v1::ServeLogsResponse demand;
  demand.set_reader(reader_id);
  *demand.mutable_demand() = reader.request;
  if (const auto at = reader.positions.find({source.pool, source.node});
      at != reader.positions.end())
    *demand.mutable_demand()->add_positions() = at->second;
  out.Add(source.stream, std::move(demand));
  reader.asked.insert(source_id);
}

int64_t LogHub::Add(std::shared_ptr<LogSource> stream, const std::string& pool, int node) {
  Outbox out;
  int64_t id = 0;
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    id = next_id_++;
    refused = closed_;
    const auto of_pool = std::count_if(sources_.begin(), sources_.end(), [&](const auto& source) {
      return source.second.pool == pool;
    });
    if (of_pool >= kSourcesOfPoolMax)
      refused.Update(absl::ResourceExhaustedError(
          absl::StrCat("too many agents of this pool send logs (limit ", kSourcesOfPoolMax, ")")));
    if (refused.ok()) {
      const Source& source = sources_[id] = {stream, pool, node};
      for (auto& [reader_id, reader] : readers_) {
        if (reader.request.follow()) Ask(reader_id, reader, id, source, out);
      }
    }
  }
  out.Send();
  if (!refused.ok()) stream->End(refused);
  return id;
}

void LogHub::Deliver(int64_t source_id, v1::ServeLogsRequest message) {
  Outbox out;
  {
    absl::MutexLock lock(&mutex_);
    const auto source = sources_.find(source_id);
    if (source == sources_.end()) return;
    const auto found = readers_.find(message.reader());
    // A reader gets nothing from a source that it has not asked.
    if (found == readers_.end() || !found->second.asked.contains(source_id)) {
      if (!message.end()) out.Add(source->second.stream, StopOf(message.reader()));
    } else if (found->second.stream->ended()) {
      Sweep(out);
    } else {
      Pass(source_id, source->second, found->second, message);
      if (message.end()) SourceEnded(found, source_id);
    }
  }
  out.Send();
}

void LogHub::Pass(int64_t source_id, const Source& source, Reader& reader,
                  v1::ServeLogsRequest& message) {
  const bool tells = message.ring() != 0 && reader.request.follow();
  if (message.text().empty() && message.dropped() == 0 && !tells) return;
  int64_t& dropped = reader.dropped[source_id];
  const int64_t lines = std::count(message.text().begin(), message.text().end(), '\n');
  v1::FollowLogsResponse response;
  response.set_pool(source.pool);
  response.set_node(source.node);
  response.set_dropped(message.dropped() + dropped);
  response.set_text(std::move(*message.mutable_text()));
  response.set_ring(message.ring());
  response.set_next(message.next());
  if (!reader.stream->Offer(std::move(response))) {
    dropped += message.dropped() + lines;
    return;
  }
  dropped = 0;
  // An agent of an earlier version.
  if (message.ring() == 0) return;
  v1::LogPosition& at = reader.positions[{source.pool, source.node}];
  at.set_pool(source.pool);
  at.set_node(source.node);
  at.set_ring(message.ring());
  at.set_next(message.next());
}

void LogHub::SourceEnded(std::map<int64_t, Reader>::iterator reader, int64_t source) {
  reader->second.asked.erase(source);
  reader->second.dropped.erase(source);
  if (!reader->second.asked.empty() || reader->second.request.follow()) return;
  reader->second.stream->End(absl::OkStatus());
  readers_.erase(reader);
}

void LogHub::Remove(int64_t source) {
  absl::MutexLock lock(&mutex_);
  sources_.erase(source);
  for (auto reader = readers_.begin(); reader != readers_.end();) {
    const auto next = std::next(reader);
    if (reader->second.asked.count(source) > 0) SourceEnded(reader, source);
    reader = next;
  }
}

void LogHub::Sweep(Outbox& out) {
  for (auto reader = readers_.begin(); reader != readers_.end();) {
    const auto next = std::next(reader);
    if (reader->second.stream->ended()) {
      for (const int64_t asked : reader->second.asked) {
        if (const auto source = sources_.find(asked); source != sources_.end())
          out.Add(source->second.stream, StopOf(reader->first));
      }
      readers_.erase(reader);
    }
    reader = next;
  }
}

void LogHub::EndAll(const absl::Status& status) {
  std::map<int64_t, Source> sources;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = status;
    for (auto& [id, reader] : readers_) reader.stream->End(status);
    readers_.clear();
    sources = sources_;
  }
  for (const auto& [id, source] : sources) source.stream->End(status);
}

}  // namespace longhaul::coordinator
