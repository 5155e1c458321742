#include "coordinator/service/status_pages.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/status_macros.h"
#include "common/base/task_runner.h"
#include "coordinator/effects/recovery.h"
#include "coordinator/service/curve_service.h"
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

// `make` runs on the thread to which `post` gives it. The caller may have given up before that:
// then the answer is UNAVAILABLE, with what stands still if that is known.
template <typename Message>
absl::StatusOr<Message> AnswerOf(const StatusSource& source,
                                 absl::FunctionRef<bool(TaskRunner::Task)> post,
                                 std::function<absl::StatusOr<Message>()> make) {
  const auto asked = std::make_shared<Asked<Message>>();
  const bool posted = post([asked, make = std::move(make)] {
    asked->answer = make();
    asked->done.Notify();
  });
  if (!posted || !asked->done.WaitForNotificationWithTimeout(kPatience)) {
    const absl::Status ready = source.ready();
    return absl::UnavailableError(ready.ok() ? "the coordinator is busy or shutting down: try again"
                                             : ready.message());
  }
  return std::move(asked->answer);
}

template <typename Message>
absl::StatusOr<Message> FromOwner(const StatusSource& source,
                                  std::function<absl::StatusOr<Message>()> make) {
  return AnswerOf<Message>(
      source,
      [&](TaskRunner::Task task) {
        return source.service.owner->PostRead(std::move(task), [](const absl::Status&) {});
      },
      std::move(make));
}

template <typename Message>
absl::StatusOr<Message> FromReader(const StatusSource& source,
                                   std::function<absl::StatusOr<Message>()> make) {
  return AnswerOf<Message>(
      source, [&](TaskRunner::Task task) { return source.service.reader->Submit(std::move(task)); },
      std::move(make));
}

// They may be many rows, so the owner thread does not read them. Its next commit still waits until
// they are read, since the database does one thing at a time.
absl::StatusOr<v1::JobDetail> WithStoredEvaluations(const StatusSource& source,
                                                    v1::JobDetail detail) {
  return FromReader<v1::JobDetail>(
      source,
      [&meta = source.service.control->meta(),
       detail = std::move(detail)]() mutable -> absl::StatusOr<v1::JobDetail> {
        JobProgress progress(0);
        LH_RETURN_IF_ERROR(ReadEvaluations(meta, detail.job().id(), progress));
        progress.FillEvaluations(&detail);
        return std::move(detail);
      });
}

absl::StatusOr<v1::Overview> AskOverview(const StatusSource& source) {
  LH_ASSIGN_OR_RETURN(std::vector<ListedJob> jobs,
                      FromReader<std::vector<ListedJob>>(source, [source] {
                        return ReadListed(source.service.control->meta(),
                                          std::numeric_limits<int64_t>::max(), kJobsMax);
                      }));
  return FromOwner<v1::Overview>(source, [source, jobs = std::move(jobs)]() mutable {
    return MakeOverview(source, std::move(jobs));
  });
}

absl::StatusOr<v1::JobDetail> AskJobDetail(const StatusSource& source, const std::string& name) {
  LH_ASSIGN_OR_RETURN(JobPage page, FromOwner<JobPage>(source, [source, name] {
                        return MakeJobPage(source, name);
                      }));
  if (page.has_evaluations) return std::move(page.detail);
  return WithStoredEvaluations(source, std::move(page.detail));
}

absl::StatusOr<v1::GetCurvesResponse> AskCurves(const StatusSource& source,
                                                const std::string& name) {
  v1::GetCurvesRequest request;
  request.set_job(name);
  return AnswerOf<v1::GetCurvesResponse>(
      source, [&](TaskRunner::Task task) { return source.service.beside->Submit(std::move(task)); },
      [source, request = std::move(request)] {
        return CurvesOf(*source.service.control, request);
      });
}

template <typename Message>
Page JsonOf(const absl::StatusOr<Message>& answer) {
  if (!answer.ok()) {
    const int code = absl::IsUnavailable(answer.status()) ? 503
                     : absl::IsNotFound(answer.status())  ? 404
                                                          : 500;
    return {.code = code, .body = absl::StrCat(answer.status().message(), "\n")};
  }
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  Page page{.type = "application/json"};
  if (!google::protobuf::util::MessageToJsonString(*answer, &page.body, options).ok())
    return {.code = 500, .body = "the report has no JSON form\n"};
  return page;
}

}  // namespace

v1::Overview MakeOverview(const StatusSource& source, std::vector<ListedJob> jobs) {
  const ControlPlane& control = *source.service.control;
  v1::Overview overview;
  overview.set_version(LONGHAUL_VERSION);
  *overview.mutable_now() = ToProto(control.now());
  *overview.mutable_started_at() = ToProto(source.started);
  const absl::Status ready = source.ready();
  if (!ready.ok()) overview.set_not_ready(std::string(ready.message()));
  for (ListedJob& job : jobs) *overview.add_jobs() = Bounded(ReportListed(control, std::move(job)));
  v1::ListPoolsResponse pools;
  source.pools->List("", std::numeric_limits<size_t>::max(), &pools);
  overview.mutable_pools()->Swap(pools.mutable_pools());
  return overview;
}

absl::StatusOr<JobPage> MakeJobPage(const StatusSource& source, const std::string& job) {
  const ControlPlane& control = *source.service.control;
  LH_ASSIGN_OR_RETURN(const JobRecord record, control.meta().GetJob(job));
  JobPage page;
  v1::JobDetail& detail = page.detail;
  *detail.mutable_now() = ToProto(control.now());
  *detail.mutable_job() = Report(control, record);
  for (v1::JobEvent& event : control.EventsAfter(record.id, 0))
    *detail.add_events() = std::move(event);
  if (const std::shared_ptr<LiveJob> live = control.Find(record.id)) {
    page.has_evaluations = live->resolved.has_value();
    if (page.has_evaluations) live->progress.FillEvaluations(&detail);
    live->history.Fill(&detail);
  }
  return page;
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
  pages.Add("/api/v1/overview",
            [source](const PageRequest&) { return JsonOf(AskOverview(source)); });
  pages.Add("/api/v1/job", [source](const PageRequest& request) {
    return JsonOf(AskJobDetail(source, request.Parameter("name")));
  });
  pages.Add("/api/v1/curves", [source](const PageRequest& request) {
    return JsonOf(AskCurves(source, request.Parameter("job")));
  });
}

}  // namespace coordinator
}  // namespace longhaul
