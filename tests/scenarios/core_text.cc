#include "tests/scenarios/core_text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace longhaul {
namespace {

std::string StartText(const std::optional<int64_t>& start) {
  return start.has_value() ? absl::StrCat(" start=", *start) : "";
}

std::string RoundText(const RoundId& round) {
  return absl::StrFormat("fragment %d version %d", round.fragment, round.version);
}

std::string EvaluatorText(const std::string& evaluator) {
  return evaluator.empty() ? "" : absl::StrCat(" evaluator=", evaluator);
}

std::string Text(const coordinator::Refuse& a) {
  std::string text =
      absl::StrFormat("refuse %s %s", absl::StatusCodeToString(a.status.code()), a.reason);
  if (a.have.has_value()) absl::StrAppend(&text, " have=", *a.have);
  if (a.retry_after > absl::ZeroDuration())
    absl::StrAppend(&text, " retry=", absl::FormatDuration(a.retry_after));
  return text;
}
std::string Text(const NodePlace& place) {
  std::string text = absl::StrFormat(", node %d of %d", place.node, place.nodes);
  if (!place.incarnation.empty()) absl::StrAppend(&text, ", group ", place.incarnation);
  if (!place.missing.empty()) absl::StrAppend(&text, ", waits for ", place.missing);
  if (place.ranks > 0)
    absl::StrAppendFormat(&text, ", ranks from %d of %d", place.first_rank, place.ranks);
  return text;
}
std::string Text(const coordinator::GrantLease& a) {
  const std::string work =
      a.assignment.has_value()
          ? absl::StrFormat("job=%s ordinal=%d%s", a.assignment->job, a.assignment->ordinal,
                            a.assignment->stop ? " stop" : "")
          : "idle";
  return absl::StrFormat("lease %s %s %s%s", a.pool, absl::FormatDuration(a.lease), work,
                         a.node.has_value() ? Text(*a.node) : "");
}
std::string FaultText(const std::optional<JobFault>& fault) {
  std::string text;
  if (!fault.has_value()) return text;
  for (const auto& [name, value] :
       {std::pair("message", fault->message), std::pair("pool", fault->pool),
        std::pair("field", fault->field), std::pair("hint", fault->hint)}) {
    if (!value.empty()) absl::StrAppend(&text, " ", name, "=", value);
  }
  return text;
}

std::string Text(const coordinator::StoreNewJob& a) {
  return absl::StrCat("store ", a.job, " PENDING");
}
std::string Text(const coordinator::StoreCleanedUp& a) {
  return absl::StrCat("store ", a.job, " is cleaned up");
}
std::string Text(const coordinator::LastCheckpointMissing& a) {
  return absl::StrFormat("no last checkpoint of %s yet: %s", a.job, a.why);
}
std::string Text(const coordinator::ForgetJob& a) { return absl::StrCat("forget ", a.job); }
std::string Text(const coordinator::CloseStore& a) { return absl::StrCat("close ", a.job); }
std::string Text(const coordinator::RemoveLog& a) {
  return absl::StrCat("remove the log of ", a.job);
}
std::string Text(const coordinator::StoreJobState& a) {
  return absl::StrFormat("store %s %s%s", a.job, JobStateName(a.state), FaultText(a.fault));
}
std::string Text(const coordinator::StorePlace& a) {
  const coordinator::RecoveredPlace& p = a.place;
  std::string text = absl::StrFormat("store %s place %d: %s/%s%s", a.job, p.ordinal, p.pool,
                                     p.incarnation, StartText(p.start_step));
  if (p.gone) absl::StrAppend(&text, " gone");
  if (p.return_until != absl::InfinitePast()) {
    absl::StrAppend(&text, " away until ",
                    absl::FormatDuration(p.return_until - absl::UnixEpoch()));
  }
  return text;
}
std::string Text(const coordinator::StoreEvaluation& a) {
  return absl::StrFormat("store %s evaluation step %d loss %g%s%s", a.job, a.evaluation.step,
                         a.evaluation.loss, a.evaluation.final ? " final" : "",
                         a.evaluation.of_pool ? absl::StrCat(" of ", a.pool, "'s own parameters")
                         : a.of_site          ? absl::StrCat(" at ", a.pool)
                                              : "");
}
std::string Text(const coordinator::StoreCheckpointRequest& a) {
  return a.cycle == 0
             ? absl::StrCat("store ", a.job, " no checkpoint is wanted")
             : absl::StrFormat("store %s a checkpoint of cycle %d is wanted", a.job, a.cycle);
}
std::string Text(const coordinator::StorePause& a) {
  static const char* const kStages[] = {"is not paused", "is pausing", "is paused", "is resumed"};
  return absl::StrCat("store ", a.job, " ", kStages[static_cast<int>(a.stage)],
                      a.by.empty() ? "" : " by=" + a.by,
                      a.reason.empty() ? "" : " reason=" + a.reason);
}
std::string Text(const coordinator::StoreDeleted& a) {
  return absl::StrCat("store ", a.job, " is deleted", a.expired ? ", it ended long ago" : "");
}
std::string Text(const coordinator::StoreRemoved& a) {
  return absl::StrCat("store ", a.job, " has no files");
}
std::string Text(const coordinator::PromiseCheckpoint& a) {
  return absl::StrFormat("promise a checkpoint of %s at step %d", a.job, a.step);
}
std::string Text(const coordinator::PoolPresence& a) {
  return absl::StrFormat("%s %s of %s", a.live ? "back" : "lost", a.pool, a.job);
}
std::string Text(const coordinator::PoolFellBehind& a) {
  return absl::StrFormat("behind %s of %s, %d rounds", a.pool, a.job, a.rounds);
}
std::string Text(const coordinator::PoolLeftOut& a) {
  return absl::StrFormat("%s %s of %s, %s: %s", a.overruled ? "cannot leave out" : "left out",
                         a.pool, a.job, RoundText(a.round), a.why);
}
std::string Text(const coordinator::RemoveFiles& a) {
  return absl::StrCat("remove the files of ", a.job);
}
std::string Text(const coordinator::AdmitRank& a) {
  return absl::StrFormat("admit %s rank %d ordinal=%d start=%d%s", a.pool, a.rank, a.ordinal,
                         a.start_step, a.seed ? " seed" : "");
}
std::string Text(const coordinator::RequestSeed& a) {
  return absl::StrFormat("request seed of %s from %s", a.job, a.pool);
}
std::string PoolsText(const std::vector<coordinator::Contributor>& contributors) {
  return absl::StrJoin(contributors, " ", [](std::string* out, const coordinator::Contributor& c) {
    absl::StrAppend(out, c.pool);
  });
}
std::string Text(const coordinator::MeasureRound& a) {
  return absl::StrFormat("measure %s %s of [%s]", a.job, RoundText(a.round),
                         PoolsText(a.contributors));
}
std::string Text(const coordinator::ApplyRound& a) {
  std::string text = absl::StrFormat("apply %s %s %s of [%s]%s", a.job, RoundText(a.round),
                                     RoundKindName(a.round.kind), PoolsText(a.contributors),
                                     EvaluatorText(a.evaluator));
  for (const LeftOut& pool : a.outer.left_out)
    absl::StrAppendFormat(&text, " without %s/%s", pool.pool, pool.incarnation);
  return text;
}
std::string Text(const coordinator::PublishCommit& a) {
  return absl::StrFormat("publish %s %s %s%s", a.job, RoundText(a.round),
                         RoundKindName(a.round.kind), EvaluatorText(a.evaluator));
}
std::string Text(const coordinator::CallRound& a) {
  return absl::StrFormat("call %s %s", a.job, RoundText(a.round));
}
std::string Text(const coordinator::WriteCheckpoint& a) {
  if (a.final) return absl::StrFormat("checkpoint %s final step %d", a.job, a.step);
  if (a.cycle > 0) return absl::StrFormat("checkpoint %s cycle %d step %d", a.job, a.cycle, a.step);
  return absl::StrFormat("checkpoint %s step %d of versions %s%s", a.job, a.step,
                         absl::StrJoin(a.versions, " "), a.last ? "" : ", not the last");
}
std::string Text(const coordinator::EndJob& a) {
  return absl::StrFormat("end %s %s%s", a.job, JobStateName(a.state), FaultText(a.fault));
}
std::string Text(const coordinator::ReleasePool& a) {
  return absl::StrFormat("release %s/%s from %s", a.pool, a.incarnation, a.job);
}
std::string Text(const coordinator::PoolSetAside& a) {
  return absl::StrFormat("set aside %s for %s for %s%s", a.pool, a.job,
                         absl::FormatDuration(a.retry_after), FaultText(a.fault));
}
std::string Text(const coordinator::OpenStore& a) {
  return absl::StrFormat("open %s%s", a.job, a.create ? ", or make it" : "");
}

std::string Text(const session::SeedPush& a) {
  return absl::StrCat("seed fragments ", absl::StrJoin(a.fragments, " "));
}
std::string Text(const session::PullWhole& a) {
  return absl::StrFormat("pull %d whole", a.fragment);
}
std::string Text(const session::AgreeOnVersions& a) {
  return absl::StrCat("agree on ", absl::StrJoin(a.versions, " "), a.again ? ", again" : "");
}
std::string Text(const session::RunStep& a) {
  return absl::StrCat("run step ", a.step, a.settle ? ", settle" : "");
}
std::string Text(const session::Push& a) {
  return absl::StrFormat("push %d version %d %s%s", a.fragment, a.version, RoundKindName(a.kind),
                         a.weight == 1 ? "" : absl::StrCat(" weight=", a.weight));
}
std::string Text(const session::PushAgain& a) {
  return absl::StrFormat("push %d version %d again", a.fragment, a.version);
}
std::string Text(const session::Pull& a) {
  return absl::StrFormat("pull %d version %d", a.fragment, a.version);
}
std::string Text(const session::AgreeOnMerge& a) {
  return absl::StrFormat("agree to merge %d version %d%s", a.fragment, a.version,
                         a.here ? "" : ", which is not here");
}
std::string Text(const session::Merge& a) {
  return absl::StrFormat("merge %d version %d %s alpha=%g%s", a.fragment, a.version,
                         RoundKindName(a.kind), a.alpha,
                         a.contributed ? " contributed"
                         : a.earlier   ? " contributed earlier"
                                       : "");
}
std::string Text(const session::Evaluate& a) {
  if (a.of_pool)
    return absl::StrFormat("evaluate own parameters version %d step %d", a.version, a.step);
  return absl::StrFormat("evaluate version %d step %d%s", a.version, a.step,
                         a.final ? " final" : "");
}
std::string Text(const session::Wait& a) {
  return absl::StrFormat("wait for %s since step %d", a.what, a.since_step);
}
std::string Text(const session::Draining& a) {
  return absl::StrCat("drains: the last step was ", a.last_step);
}
std::string Text(const session::Finish& a) { return absl::StrCat("finish: ", a.reason); }
std::string Text(const session::Restart& a) { return absl::StrCat("restart: ", a.reason); }

}  // namespace

std::string ToText(const coordinator::Record& record) {
  return std::visit([](const auto& a) { return Text(a); }, record);
}
std::string ToText(const coordinator::Answer& answer) {
  return std::visit([](const auto& a) { return Text(a); }, answer);
}
std::string ToText(const coordinator::Notice& notice) {
  return std::visit([](const auto& a) { return Text(a); }, notice);
}
std::string ToText(const coordinator::Work& work) {
  return std::visit([](const auto& a) { return Text(a); }, work);
}
std::vector<std::string> ToLines(const coordinator::Decision& decision) {
  std::vector<std::string> lines;
  for (const auto& record : decision.records) lines.push_back(ToText(record));
  if (decision.answer.has_value()) lines.push_back(ToText(*decision.answer));
  for (const auto& notice : decision.notices) lines.push_back(ToText(notice));
  for (const auto& work : decision.works) lines.push_back(ToText(work));
  return lines;
}
std::string ToText(const session::Action& action) {
  return std::visit([](const auto& a) { return Text(a); }, action);
}

}  // namespace longhaul
