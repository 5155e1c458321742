#include "coordinator/service/curve_service.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/job_curves.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/unary.h"
#include "coordinator/store/job_folder.h"

namespace longhaul::coordinator {

absl::StatusOr<v1::GetCurvesResponse> CurvesOf(ControlPlane& control,
                                               const v1::GetCurvesRequest& request) {
  LH_ASSIGN_OR_RETURN(const JobRecord record, FindJobRecord(control.meta(), request.job()));
  Fragments& fragments = control.fragments();
  return ReadCurves(*fragments.parts().fs, TrackFolder(fragments.JobDir(record.id)), request);
}

CurveService::CurveService(const ServiceContext& service) : service_(service) {}
CurveService::~CurveService() = default;

grpc::ServerUnaryReactor* CurveService::GetCurves(grpc::CallbackServerContext* context,
                                                  const v1::GetCurvesRequest* request,
                                                  v1::GetCurvesResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  if (request->names_size() > kCurveNamesMax) {
    return Answered(
        context, BadRequestError({{"names", absl::StrCat("found ", request->names_size(),
                                                         ", expected at most ", kCurveNamesMax)}}));
  }
  return AnswerFrom(context, *service_.beside, [=, this]() -> absl::Status {
    LH_ASSIGN_OR_RETURN(*response, CurvesOf(*service_.control, *request));
    return absl::OkStatus();
  });
}

}  // namespace longhaul::coordinator
