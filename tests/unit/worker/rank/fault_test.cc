#include "worker/rank/fault.h"

#include <gtest/gtest.h>

#include "common/base/status_marks.h"

namespace longhaul {
namespace {

v1::JobSpec FaultSpec(v1::Device device = v1::CPU) {
  v1::JobSpec spec;
  spec.mutable_data()->mutable_text()->set_path("/data/text");
  spec.mutable_train()->set_device(device);
  return spec;
}
v1::FaultClass ClassOf(FaultOrigin origin, const absl::Status& status,
                       v1::Device device = v1::CPU) {
  return DescribeFault(origin, FaultSpec(device), status).fault_class();
}

TEST(FaultTest, WhatThisMachineLacksIsTheSites) {
  using P = FaultOrigin;
  EXPECT_EQ(ClassOf(P::kPreparation, absl::NotFoundError("no data")), v1::SITE_FAULT);
  EXPECT_EQ(ClassOf(P::kPreparation, absl::PermissionDeniedError("data")), v1::SITE_FAULT);
  EXPECT_EQ(ClassOf(P::kPreparation, absl::InvalidArgumentError("too short")), v1::SITE_FAULT);
  EXPECT_EQ(ClassOf(P::kPreparation, absl::ResourceExhaustedError("memory")), v1::SITE_FAULT);
  EXPECT_EQ(ClassOf(P::kPreparation, absl::FailedPreconditionError("no CUDA device"), v1::CUDA),
            v1::SITE_FAULT);
  EXPECT_EQ(ClassOf(P::kMeeting, absl::FailedPreconditionError("no CUDA device"), v1::CUDA),
            v1::SITE_FAULT);
  EXPECT_EQ(ClassOf(P::kCapabilities, absl::UnimplementedError("lacks codec:new")), v1::SITE_FAULT);
  EXPECT_EQ(ClassOf(P::kAssignment, absl::InvalidArgumentError("newer")), v1::SITE_FAULT);
  EXPECT_EQ(ClassOf(P::kTraining, absl::ResourceExhaustedError("CUDA out of memory")),
            v1::SITE_FAULT);
  EXPECT_EQ(ClassOf(P::kTraining, absl::InternalError("torch")), v1::SITE_FAULT);
  // One pool's infinite values: the coordinator decides when all say so.
  EXPECT_EQ(ClassOf(P::kContribution, absl::InvalidArgumentError("NaN")), v1::SITE_FAULT);
}

TEST(FaultTest, WhatNoMachineCanDoIsTheJobs) {
  const v1::JobError fault =
      DescribeFault(FaultOrigin::kPreparation, FaultSpec(), absl::UnimplementedError("not built"));
  EXPECT_EQ(fault.fault_class(), v1::JOB_FAULT);
  EXPECT_TRUE(IsReported(fault));
}

TEST(FaultTest, NamesTheSourceOfDataWhereThereIsOne) {
  const absl::Status missing = absl::NotFoundError("no data");
  v1::JobSpec spec = FaultSpec();
  EXPECT_EQ(DescribeFault(FaultOrigin::kPreparation, spec, missing).field(), "data.text.path");
  spec.mutable_data()->mutable_megatron()->set_prefix("x");
  EXPECT_EQ(DescribeFault(FaultOrigin::kPreparation, spec, missing).field(),
            "data.megatron.prefix");
  spec.mutable_data()->add_pools()->mutable_text()->set_path("y");
  EXPECT_EQ(DescribeFault(FaultOrigin::kPreparation, spec, missing).field(), "data");
}

TEST(FaultTest, ATokenizerThatIsNotThereIsNoMissingData) {
  v1::JobSpec spec = FaultSpec();
  const v1::JobError missing =
      DescribeFault(FaultOrigin::kPreparation, spec,
                    MarkTokenizer(absl::NotFoundError("/t.model: no such file")));
  EXPECT_EQ(missing.message(), "/t.model: no such file");
  EXPECT_EQ(missing.field(), "data.text.tokenizer");
  EXPECT_NE(missing.hint().find("tokenizer"), std::string::npos);
  EXPECT_EQ(DescribeFault(FaultOrigin::kPreparation, spec,
                          MarkTokenizer(absl::InvalidArgumentError("/t.model: is damaged")))
                .field(),
            "data.text.tokenizer");
  spec.mutable_data()->add_pools()->mutable_text()->set_path("y");
  EXPECT_EQ(DescribeFault(FaultOrigin::kPreparation, spec, MarkTokenizer(absl::NotFoundError("t")))
                .field(),
            "data");
}

TEST(FaultTest, AHuggingFaceFolderIsNamedWhereverItIsRead) {
  const absl::Status damaged =
      AboutField("model.hf.path", absl::DataLossError("/m/model.safetensors: NaN"));
  for (const FaultOrigin origin : {FaultOrigin::kPreparation, FaultOrigin::kTraining}) {
    const v1::JobError fault = DescribeFault(origin, FaultSpec(), damaged);
    EXPECT_EQ(fault.field(), "model.hf.path");
    EXPECT_NE(fault.hint().find("download it again"), std::string::npos);
  }
}

TEST(FaultTest, ALostRankIsAPeers) {
  for (const absl::Status& status :
       {absl::UnavailableError("gone"), absl::DeadlineExceededError("stands still")}) {
    for (const FaultOrigin origin :
         {FaultOrigin::kMeeting, FaultOrigin::kPreparation, FaultOrigin::kTraining}) {
      const v1::JobError fault = DescribeFault(origin, FaultSpec(), MarkPeerFault(status));
      EXPECT_EQ(fault.fault_class(), v1::PEER_FAULT);
      EXPECT_FALSE(IsReported(fault));
    }
    // The rendezvous waits for the other ranks.
    EXPECT_EQ(ClassOf(FaultOrigin::kMeeting, status), v1::PEER_FAULT);
  }
}

TEST(FaultTest, ADeviceOrAFileOfThisRankIsTheSitesWhateverTheCode) {
  for (const FaultOrigin origin : {FaultOrigin::kPreparation, FaultOrigin::kTraining}) {
    for (const absl::Status& status :
         {absl::DeadlineExceededError("the moments: the device has not done it after 5m"),
          absl::UnavailableError("open /data/text: Too many open files")}) {
      const v1::JobError fault = DescribeFault(origin, FaultSpec(), status);
      EXPECT_EQ(fault.fault_class(), v1::SITE_FAULT) << status;
      EXPECT_TRUE(IsReported(fault));
    }
  }
}

TEST(FaultTest, WhatDoesNotAnswerIsToBeLookedForOnTheMachine) {
  for (const absl::Status& status : {absl::DeadlineExceededError("a step: the device has not"),
                                     absl::AbortedError("the data was not read within 45s")}) {
    const v1::JobError fault = DescribeFault(FaultOrigin::kTraining, FaultSpec(), status);
    EXPECT_EQ(fault.fault_class(), v1::SITE_FAULT);
    EXPECT_NE(fault.hint().find("kernel log"), std::string::npos);
  }
}

TEST(FaultTest, ARankThatCannotListenIsOfTheSite) {
  v1::JobSpec spec = FaultSpec();
  spec.mutable_train()->set_device(v1::CUDA);
  const v1::JobError fault = DescribeFault(
      FaultOrigin::kMeeting, spec, absl::InternalError("listening on 10.0.0.1: no such address"));
  EXPECT_EQ(fault.fault_class(), v1::SITE_FAULT);
  EXPECT_EQ(fault.field(), "");  // No device is missing.
}

TEST(FaultTest, AMeetingThatGoesOnWithoutThisRankIsAPeers) {
  EXPECT_EQ(
      ClassOf(FaultOrigin::kMeeting, absl::AbortedError("rendezvous: generation 2 has begun")),
      v1::PEER_FAULT);
  // The agent of node 0 has not begun the exchange for as long as a rank tries.
  EXPECT_EQ(ClassOf(FaultOrigin::kMeeting,
                    absl::NotFoundError("rendezvous: generation 2 came, the current one is 1")),
            v1::PEER_FAULT);
  EXPECT_EQ(ClassOf(FaultOrigin::kTraining, absl::AbortedError("the data was not read in time")),
            v1::SITE_FAULT);
}

TEST(FaultTest, AModelsFolderThatDoesNotFitNamesItsField) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kNotFound, absl::StatusCode::kInvalidArgument,
        absl::StatusCode::kFailedPrecondition, absl::StatusCode::kDataLoss}) {
    const v1::JobError fault =
        DescribeFault(FaultOrigin::kPreparation, FaultSpec(),
                      AboutField("model.hf.path", absl::Status(code, "it does not fit")));
    EXPECT_EQ(fault.fault_class(), v1::SITE_FAULT);
    EXPECT_EQ(fault.field(), "model.hf.path");
    EXPECT_FALSE(fault.hint().empty());
  }
}

TEST(FaultTest, AWrongPlanIsTheCoordinators) {
  const v1::JobError fault =
      DescribeFault(FaultOrigin::kPlan, FaultSpec(), absl::InvalidArgumentError("overlap"));
  EXPECT_EQ(fault.fault_class(), v1::COORDINATOR_FAULT);
  EXPECT_FALSE(IsReported(fault));
}

TEST(FaultTest, SaysWhatToDo) {
  const v1::JobError data =
      DescribeFault(FaultOrigin::kPreparation, FaultSpec(), absl::NotFoundError("/data/text"));
  EXPECT_EQ(data.code(), "NOT_FOUND");
  EXPECT_EQ(data.message(), "/data/text");
  EXPECT_EQ(data.field(), "data.text.path");
  EXPECT_NE(data.hint().find("below --data-dir"), std::string::npos);
  const v1::JobError device = DescribeFault(FaultOrigin::kPreparation, FaultSpec(v1::CUDA),
                                            absl::FailedPreconditionError("no CUDA device"));
  EXPECT_EQ(device.field(), "train.device");
  const v1::JobError nodes = DescribeFault(
      FaultOrigin::kPreparation, FaultSpec(v1::CUDA),
      AboutField("partition", absl::FailedPreconditionError("over the pair: no pairs")));
  EXPECT_EQ(nodes.field(), "partition");
  EXPECT_EQ(nodes.fault_class(), v1::SITE_FAULT);
}

TEST(FaultTest, MemoryThatANodeLacksIsNotAMissingDevice) {
  for (const std::string field : {"offload", "evaluation.beside_training"}) {
    const v1::JobError fault = DescribeFault(
        FaultOrigin::kPreparation, FaultSpec(v1::CUDA),
        AboutField(field, absl::FailedPreconditionError("this node needs 2 GiB and has 1 GiB")));
    EXPECT_EQ(fault.fault_class(), v1::SITE_FAULT);
    EXPECT_EQ(fault.field(), field);
    EXPECT_NE(fault.hint().find("more memory"), std::string::npos);
  }
}

TEST(FaultTest, DataThatDiffersBetweenNodesNamesTheirData) {
  for (const v1::Device device : {v1::CPU, v1::CUDA}) {
    const v1::JobError fault =
        DescribeFault(FaultOrigin::kPreparation, FaultSpec(device),
                      AboutField("data", absl::FailedPreconditionError("/data/text has 5 tokens")));
    EXPECT_EQ(fault.fault_class(), v1::SITE_FAULT);
    EXPECT_EQ(fault.field(), "data.text");
    EXPECT_NE(fault.hint().find("the same files"), std::string::npos);
  }
}

}  // namespace
}  // namespace longhaul
