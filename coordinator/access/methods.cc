#include "coordinator/access/methods.h"

#include "absl/strings/match.h"

namespace longhaul::coordinator {
namespace {

constexpr MethodRule kRules[] = {
    {"/longhaul.v1.JobService/SubmitJob", Need::kSubmitter, /*audited=*/true},
    {"/longhaul.v1.JobService/CancelJob", Need::kSubmitter, /*audited=*/true},
    {"/longhaul.v1.JobService/PauseJob", Need::kSubmitter, /*audited=*/true},
    {"/longhaul.v1.JobService/ResumeJob", Need::kSubmitter, /*audited=*/true},
    {"/longhaul.v1.JobService/PlanJob", Need::kSubmitter},
    {"/longhaul.v1.JobService/GetJob", Need::kViewer},
    {"/longhaul.v1.JobService/ListJobs", Need::kViewer},
    {"/longhaul.v1.JobService/WatchJob", Need::kViewer},
    {"/longhaul.v1.JobService/ListCheckpoints", Need::kViewer},
    {"/longhaul.v1.JobService/CreateCheckpoint", Need::kSubmitter, /*audited=*/true},
    {"/longhaul.v1.JobService/DownloadCheckpoint", Need::kViewer},
    {"/longhaul.v1.JobService/DeleteJob", Need::kSubmitter, /*audited=*/true},
    {"/longhaul.v1.JobService/ListEvents", Need::kViewer},
    {"/longhaul.v1.CurveService/GetCurves", Need::kViewer},
    {"/longhaul.v1.UploadService/FindFolder", Need::kSubmitter},
    {"/longhaul.v1.UploadService/PrepareUpload", Need::kSubmitter, /*audited=*/true},
    {"/longhaul.v1.UploadService/UploadFile", Need::kSubmitter, /*audited=*/true,
     /*counted=*/false, /*raw=*/true},
    {"/longhaul.v1.PoolService/ListPools", Need::kViewer},
    {"/longhaul.v1.ServerService/Describe", Need::kViewer},
    {"/longhaul.v1.ServerService/Probe", Need::kViewer},
    {"/longhaul.v1.LogService/FollowLogs", Need::kViewer},
    {"/longhaul.v1.LogService/ServeLogs", Need::kPool},
    {"/longhaul.v1.PoolService/Join", Need::kPool, /*audited=*/true},
    {"/longhaul.v1.PoolService/Heartbeat", Need::kPool},
    {"/longhaul.v1.PoolService/Leave", Need::kPool, /*audited=*/true},
    {"/longhaul.v1.SyncService/WatchPlan", Need::kPool},
    {"/longhaul.v1.SyncService/PushFragment", Need::kPool, /*audited=*/false, /*counted=*/false},
    {"/longhaul.v1.SyncService/GetContribution", Need::kPool, /*audited=*/false, /*counted=*/false},
    {"/longhaul.v1.SyncService/PullFragment", Need::kPool, /*audited=*/false, /*counted=*/false},
    {"/longhaul.v1.SyncService/GetTokenizer", Need::kPool, /*audited=*/false, /*counted=*/false},
    // As open as /healthz, and for the same callers.
    {"/grpc.health.v1.Health/", Need::kNothing},
    {"/grpc.reflection.v1alpha.ServerReflection/", Need::kViewer},
};

}  // namespace

absl::Span<const MethodRule> MethodRules() { return kRules; }

const MethodRule* FindMethod(absl::string_view method) {
  for (const MethodRule& rule : kRules) {
    if (rule.method == method) return &rule;
    if (absl::EndsWith(rule.method, "/") && absl::StartsWith(method, rule.method)) return &rule;
  }
  return nullptr;
}

}  // namespace longhaul::coordinator
