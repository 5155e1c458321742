// Compute utilization of training whose sites exchange parameters over a slow link: the fraction of
// time in which they compute. After the simulator of Streaming DiLoCo (arXiv 2501.18512, Table 4).
//
// Compute is one serial stream: each layer's forward pass, backward pass for activations, and
// backward pass for parameters take a third of a layer's share of a step. The link is another: it
// sends one layer at a time, without latency, first what is needed first. A layer's transfer is
// enqueued when its backward pass ends, and its forward pass 1 + tau steps later waits for it.
//
// Pure functions. Times in seconds, rates in bits per second.
#pragma once

#include <optional>
#include <vector>

namespace longhaul::plan {

struct ExchangeModel {
  // Spread evenly over the layers. Embeddings are not modelled.
  double parameters = 0;
  int layers = 1;
  double step_seconds = 0;
  // Each fragment is sent every h steps. 1: after every step, as with data parallelism.
  int h = 100;
  // Layers of a fragment; fragment p of P has the layers p, p + P, p + 2 P, ... and is sent
  // p * floor(h / P) steps after the first one. All layers: one fragment (DiLoCo).
  int fragment_layers = 1;
  // Steps that go on while a fragment is exchanged.
  int tau = 0;
  // Of each parameter on the wire. Counted once: an all-reduce between two sites.
  double bits = 16;
};

// In (0, 1]. Requires parameters, layers, step_seconds, h, bits and the bandwidth to be positive,
// 1 <= fragment_layers <= layers, at most h fragments, and tau >= 0. The first period is left out,
// then two are measured; with h < 4, eight steps after the first four.
double Utilization(const ExchangeModel& model, double bits_per_second);

// The paper's grid: 50 bandwidths from 0.1 to 1,000 Gbit/s at equal ratios. Every bandwidth of its
// tables lies on it.
std::vector<double> BandwidthGrid();

// The least bandwidth of the grid with this utilization, within 0.0005 as the paper rounds. Empty:
// none has it.
std::optional<double> BandwidthFor(const ExchangeModel& model, double utilization);

}  // namespace longhaul::plan
