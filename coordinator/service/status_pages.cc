#include "coordinator/service/status_pages.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "common/base/status_macros.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/messages.h"
#include "google/protobuf/util/json_util.h"

namespace longhaul {

// Of the folder `page`.
extern const unsigned char kFile_index_html[], kFile_status_css[], kFile_status_js[];

namespace coordinator {
namespace {

constexpr int kJobsMax = 50;
constexpr absl::Duration kPatience = absl::Seconds(2);

template <typename Message>
struct Asked {
  absl::Notification done;
  absl::StatusOr<Message> answer;
};

// `make` runs on the owner thread. The caller may have given up before that.
template <typename Message>
Page JsonFromOwner(OwnerThread& owner, std::function<absl::StatusOr<Message>()> make) {
  const auto asked = std::make_shared<Asked<Message>>();
  const bool posted = owner.Post([asked, make = std::move(make)] {
    asked->answer = make();
    asked->done.Notify();
  });
  if (!posted || !asked->done.WaitForNotificationWithTimeout(kPatience))
    return {.code = 503, .body = "the coordinator is busy, or going down: try again\n"};
  if (absl::IsNotFound(asked->answer.status()))
    return {.code = 404, .body = std::string(asked->answer.status().message()) + "\n"};
  if (!asked->answer.ok())
    return {.code = 500, .body = std::string(asked->answer.status().message()) + "\n"};
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  Page page{.type = "application/json"};
  if (!google::protobuf::util::MessageToJsonString(*asked->answer, &page.body, options).ok())
    return {.code = 500, .body = "the report has no JSON form\n"};
  return page;
}

}  // namespace

absl::StatusOr<v1::Overview> MakeOverview(const StatusSource& source) {
  const Performer& performer = *source.service.performer;
  v1::Overview overview;
  overview.set_version(LONGHAUL_VERSION);
  *overview.mutable_now() = ToProto(performer.now());
  *overview.mutable_started_at() = ToProto(source.started);
  const absl::Status ready = source.ready();
  if (!ready.ok()) overview.set_not_ready(std::string(ready.message()));
  LH_ASSIGN_OR_RETURN(const std::vector<JobRecord> records,
                      performer.meta().ListJobs(std::numeric_limits<int64_t>::max(), kJobsMax));
  for (const JobRecord& record : records) *overview.add_jobs() = Bounded(Report(performer, record));
  v1::ListPoolsResponse pools;
  source.pools->List("", std::numeric_limits<size_t>::max(), &pools);
  overview.mutable_pools()->Swap(pools.mutable_pools());
  return overview;
}

absl::StatusOr<v1::JobDetail> MakeJobDetail(const StatusSource& source, const std::string& job) {
  const Performer& performer = *source.service.performer;
  LH_ASSIGN_OR_RETURN(const JobRecord record, performer.meta().GetJob(job));
  v1::JobDetail detail;
  *detail.mutable_now() = ToProto(performer.now());
  *detail.mutable_job() = Report(performer, record);
  LH_ASSIGN_OR_RETURN(const std::vector<EvaluationRecord> evaluations,
                      performer.meta().ListEvaluations(record.id));
  for (const EvaluationRecord& evaluation : evaluations) {
    v1::LossPoint* const point = detail.add_evaluations();
    point->set_step(evaluation.step);
    point->set_loss(evaluation.loss);
  }
  for (v1::JobEvent& event : performer.EventsAfter(record.id, 0))
    *detail.add_events() = std::move(event);
  LH_ASSIGN_OR_RETURN(const std::vector<EvaluationRecord> of_pools,
                      performer.meta().ListPoolEvaluations(record.id));
  std::map<std::string, LossCurve> curves;
  for (const EvaluationRecord& evaluation : of_pools)
    curves[evaluation.pool].Add(evaluation.step, evaluation.loss);
  for (const auto& [pool, curve] : curves) {
    v1::PoolCurve* const message = detail.add_pool_evaluations();
    message->set_pool(pool);
    message->mutable_points()->Add(curve.points().begin(), curve.points().end());
  }
  if (const std::shared_ptr<LiveJob> live = performer.Find(record.id)) live->history.Fill(&detail);
  return detail;
}

void AddStatusPages(Pages& pages, const StatusSource& source) {
  const auto add_file = [&](const char* path, const char* type, const unsigned char* bytes) {
    pages.AddOpen(path, [type, bytes](const PageRequest&) {
      return Page{.type = type, .body = reinterpret_cast<const char*>(bytes)};
    });
  };
  add_file("/", "text/html; charset=utf-8", kFile_index_html);
  add_file("/status.css", "text/css; charset=utf-8", kFile_status_css);
  add_file("/status.js", "text/javascript; charset=utf-8", kFile_status_js);
  pages.Add("/api/v1/overview", [source](const PageRequest&) {
    return JsonFromOwner<v1::Overview>(*source.service.owner,
                                       [source] { return MakeOverview(source); });
  });
  pages.Add("/api/v1/job", [source](const PageRequest& request) {
    return JsonFromOwner<v1::JobDetail>(
        *source.service.owner,
        [source, name = request.Parameter("name")] { return MakeJobDetail(source, name); });
  });
}

}  // namespace coordinator
}  // namespace longhaul
