// What a job's kind of model brings to training, and nothing else does: its model, how batches are
// made, and how they reach the device. All else is the same for every family.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "c10/core/Device.h"
#include "worker/data/batch.h"
#include "worker/family/batch_stager.h"
#include "worker/family/open_family.h"
#include "worker/model/model.h"
#include "worker/plan/training_plan.h"

namespace longhaul {

// For what a family is opened. Outlives the call only.
struct FamilyContext {
  const TrainingPlan& plan;
  int rank = 0, ranks = 1;
  // Those of this rank's machine.
  int ranks_of_node = 1;
  // Where the model computes.
  at::Device device;
};

// A source of data, as this rank's machine has it. It must be equal on all ranks.
struct DataFacts {
  std::string path;
  // In units of the family.
  int64_t units = 0;
  // A digest of some of the content.
  uint64_t sample = 0;
};

struct Family {
  std::unique_ptr<const Model> model;
  std::unique_ptr<BatchMaker> maker;
  // For the thread that trains, and for the one that evaluates alongside.
  std::unique_ptr<BatchStager> stager, stager_beside;
  std::vector<DataFacts> data;
  // What a report counts ("tokens"), and how many of them a step of the pool has.
  std::string unit_name;
  int64_t units = 0;
  // An evaluation takes about as long as so many steps, or less, if that does not follow from its
  // number of batches.
  int64_t evaluation_steps = 1;
  // The loss is not on all of them: a report then has the weight of each batch, too.
  bool partial_loss = false;
  // For the log: "; attention keeps to documents". May be empty.
  std::string description;
  // See Replica::DescribeFeatures.
  std::string features;
};

}  // namespace longhaul
