// Specs of jobs on graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/capabilities.h"
#include "common/config/data_sources.h"
#include "common/config/graph_sage_spec.h"
#include "common/config/job_spec.h"
#include "common/config/load.h"
#include "tests/unit/common/config/small_spec.h"

namespace longhaul {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kGraph[] = R"(
name: graph
model: {graph_sage: {columns: 16, classes: 5}}
data: {graph: {path: site}}
train: {steps: 300, batch: 64}
)";

v1::JobSpec Graph(const std::vector<std::string>& overrides = {}) {
  return ParseJobSpec(kGraph, overrides).value();
}
std::vector<std::string> GraphFaults(const std::vector<std::string>& overrides) {
  return FaultsOf(Graph(overrides));
}

TEST(GraphSpecTest, FillsInWhatIsLeftOut) {
  const auto job = ResolveJobSpec(Graph());
  ASSERT_TRUE(job.ok()) << job.status();
  const v1::GraphSageSpec& model = job->spec.model().graph_sage();
  EXPECT_THAT(model.fanout(), ElementsAre(15, 10));
  EXPECT_EQ(model.layers(), 2);
  EXPECT_EQ(model.hidden(), 256);
  EXPECT_EQ(model.dropout(), 0.5);
  EXPECT_EQ(model.aggregator(), v1::GraphSageSpec::MEAN);
  EXPECT_EQ(model.norm(), v1::GraphSageSpec::NONE);
  EXPECT_TRUE(model.has_nodes());
  EXPECT_EQ(job->spec.data().order(), v1::EPOCHS);
  EXPECT_EQ(job->spec.data().eval_fraction(), 0);
  EXPECT_EQ(job->spec.data().graph().access(), v1::GraphSource::AUTO);
  EXPECT_EQ(job->spec.data().graph().edges(), v1::GraphSource::ALL);
  EXPECT_EQ(job->model.units.size(), 2u);
  EXPECT_EQ(job->fragments.size(), 2u);
  EXPECT_THAT(job->warnings, IsEmpty());
  // A stored spec is resolved again.
  EXPECT_TRUE(ResolveJobSpec(job->spec).ok());
}

TEST(GraphSpecTest, NoDropoutIsNotTheDefault) {
  EXPECT_EQ(
      ResolveJobSpec(Graph({"model.graph_sage.dropout=0"}))->spec.model().graph_sage().dropout(),
      0);
}

TEST(GraphSpecTest, PoolsNeedTheModelAndTheGraph) {
  EXPECT_THAT(NeedsOf(ResolveJobSpec(Graph())->spec), Contains("model:graph_sage"));
  EXPECT_THAT(NeedsOf(ResolveJobSpec(Graph())->spec), Contains("data:graph"));
}

TEST(GraphSpecTest, EveryRefusalNamesTheFieldAndSaysWhatToDo) {
  for (const auto& [assignments, field] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"model.graph_sage.columns=0"}, "model.graph_sage.columns"},
           {{"model.graph_sage.classes=0"}, "model.graph_sage.classes"},
           {{"model.graph_sage.layers=3"}, "model.graph_sage.fanout"},
           {{"model.graph_sage={columns: 16, classes: 5, layers: 1, fanout: [2, 3]}"},
            "model.graph_sage.fanout"},
           {{"model.graph_sage.links={}"}, "model.graph_sage.classes"},
           {{"model.graph_sage={columns: 16, links: {negatives: 1001}}"},
            "model.graph_sage.links.negatives"},
           {{"model.graph_sage={columns: 16, links: {negatives: -1}}"},
            "model.graph_sage.links.negatives"},
           {{"model.graph_sage={columns: 16, links: {eval_negatives: 10001}}"},
            "model.graph_sage.links.eval_negatives"},
           {{"model.graph_sage={columns: 16, links: {}}", "data.graph.edges=training"},
            "data.graph.edges"},
           {{"data.graph.access=device"}, "data.graph.access"},
           {{"data.graph.access=zero_copy"}, "data.graph.access"},
           {{"data.pools=[{pool: a, graph: {path: x, access: device}}]"},
            "data.pools[0].graph.access"},
           {{"data.graph.cache_mib=64"}, "data.graph.cache_mib"},
           {{"data.graph={path: x, access: device, cache_mib: 64}", "train.device=cuda"},
            "data.graph.cache_mib"},
           {{"train.device=cuda", "train.cuda_graphs=true"}, "train.cuda_graphs"},
           {{"train.device=cuda", "train.precision=bfloat16"}, "~train.precision"},
           {{"data={text: {path: x}}"}, "data.text"},
           {{"data={mixture: {sources: [{text: {path: x}}]}}"}, "data.mixture"},
           {{"data.pools=[{pool: a, text: {path: x}}]"}, "data.pools[0].text"},
           {{"data.order=draws"}, "data.order"},
           {{"data.eval_fraction=0.1"}, "data.eval_fraction"},
           {{"data.separate_documents=true"}, "data.separate_documents"},
           {{"data.graph_schema=abc"}, "data.graph_schema"},
           {{"train.precision=bfloat16"}, "~train.precision"},
           {{"train.blocks=fused"}, "~train.blocks"},
           {{"model.graph_sage.fanout=[5]", "inner.muon={}"}, "inner.muon"}}) {
    std::vector<SpecViolation> violations;
    (void)ResolveJobSpec(Graph(assignments), &violations);
    std::vector<std::string> fields;
    for (const SpecViolation& v : violations) {
      fields.push_back((v.unimplemented ? "~" : "") + v.field);
      EXPECT_FALSE(v.hint.empty()) << v.field;
    }
    EXPECT_THAT(fields, ElementsAre(field)) << assignments.front();
  }
}

TEST(GraphSpecTest, LinksHaveDefaultsAndNoClasses) {
  const auto job = ResolveJobSpec(Graph({"model.graph_sage={columns: 16, links: {}}"}));
  ASSERT_TRUE(job.ok()) << job.status();
  const v1::LinkTask& links = job->spec.model().graph_sage().links();
  EXPECT_EQ(links.negatives(), 1);
  EXPECT_EQ(links.eval_negatives(), 1000);
  EXPECT_EQ(links.score(), v1::LinkTask::DOT);
  EXPECT_FALSE(links.keep_targets());
  EXPECT_THAT(NeedsOf(job->spec), Contains("model:graph-links"));
  EXPECT_THAT(job->warnings, IsEmpty());
  // The last layer has the columns of the others.
  EXPECT_THAT(job->model.units.back().tensors.front().shape, ElementsAre(256, 256));
  EXPECT_TRUE(ResolveJobSpec(job->spec).ok());
  // Classes have no links.
  EXPECT_FALSE(ResolveJobSpec(Graph())->spec.model().graph_sage().has_links());
  EXPECT_THAT(NeedsOf(ResolveJobSpec(Graph())->spec), Not(Contains("model:graph-links")));
  // A model of one layer has matrices that Muon updates.
  EXPECT_TRUE(ResolveJobSpec(Graph({"model.graph_sage={columns: 16, fanout: [5], links: {}}",
                                    "inner.muon={}"}))
                  .ok());
  const auto seen =
      ResolveJobSpec(Graph({"model.graph_sage={columns: 16, links: {keep_targets: true}}"}));
  EXPECT_THAT(seen->warnings, ElementsAre(HasSubstr("keep_targets")));
}

TEST(GraphSpecTest, EveryAccessGoesWithCuda) {
  for (const char* access : {"auto", "device", "host", "zero_copy", "mapped"}) {
    const auto job =
        ResolveJobSpec(Graph({"train.device=cuda", absl::StrCat("data.graph.access=", access)}));
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->spec.train().precision(), v1::FLOAT32);
    // Programs of before have the model on CPUs alone.
    EXPECT_THAT(NeedsOf(job->spec), Contains("train:cuda-graph-sage"));
    EXPECT_THAT(NeedsOf(job->spec), Contains("precision:float32"));
  }
  EXPECT_THAT(GraphFaults({"train.device=cuda", "data.graph.cache_mib=4096"}), IsEmpty());
  EXPECT_THAT(GraphFaults({"train.device=cuda", "data.graph.cache_mib=-1"}),
              ElementsAre("data.graph.cache_mib"));
  EXPECT_THAT(NeedsOf(ResolveJobSpec(Graph())->spec), Not(Contains("train:cuda-graph-sage")));
}

TEST(GraphSpecTest, SizesAreChecked) {
  EXPECT_THAT(GraphFaults({"model.graph_sage.classes=1"}), ElementsAre("model.graph_sage.classes"));
  EXPECT_THAT(GraphFaults({"model.graph_sage.dropout=1"}), ElementsAre("model.graph_sage.dropout"));
  EXPECT_THAT(GraphFaults({"model.graph_sage.fanout=[3, 0]"}),
              ElementsAre("model.graph_sage.fanout"));
  v1::JobSpec spec = Graph();
  spec.mutable_data()->mutable_graph()->clear_path();
  EXPECT_THAT(FaultsOf(spec), ElementsAre("data.graph.path"));
}

TEST(GraphSpecTest, OnlyGraphModelsReadGraphs) {
  EXPECT_THAT(FaultsWith({"data={graph: {path: x}}"}), Contains("data.graph"));
  EXPECT_THAT(FaultsWith({"data.pools=[{pool: a, graph: {path: x}}]"}),
              ElementsAre("data.pools[0].graph"));
  EXPECT_THAT(FaultsWith({"data.graph_schema=x"}), ElementsAre("data.graph_schema"));
}

TEST(GraphSpecTest, APoolMayHaveAGraphOfItsOwn) {
  const auto job = ResolveJobSpec(Graph({"data.pools=[{pool: b, graph: {path: other}}]"}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(GraphDataOf(job->spec.data(), "a").source.path(), "site");
  EXPECT_EQ(GraphDataOf(job->spec.data(), "b").source.path(), "other");
  EXPECT_EQ(GraphDataOf(job->spec.data(), "b").field, "data.pools[0].graph");
  EXPECT_EQ(GraphDataOf(job->spec.data(), "b").source.access(), v1::GraphSource::AUTO);
}

TEST(GraphSpecTest, WhatHasNoEffectIsWarnedOf) {
  const auto job =
      ResolveJobSpec(Graph({"model.graph_sage.fanout=[5]", "model.graph_sage.normalize=true"}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->warnings, ElementsAre(HasSubstr("model.graph_sage.normalize")));
}

}  // namespace
}  // namespace longhaul
