#include "apps/decode/decoder.h"

#include <tbb/concurrent_queue.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_pipeline.h>

#include <deque>
#include <utility>

namespace uroce::decode {
namespace {

/// Large enough that handing a batch from one thread to another costs nothing beside its work, small enough
/// for a second-level cache.
constexpr size_t kBatchBytes = 256u << 10;

struct Batch {
  Frames frames;
  std::vector<Inspected> inspected;
};

void count(const Inspected& packet, Totals& totals) {
  if (packet.segment <= 1) {
    ++totals.frames;
    totals.bytes += packet.frame_bytes;
    if (packet.truncated && packet.kind != Inspected::Kind::kOther) ++totals.truncated;
  }
  switch (packet.kind) {
    case Inspected::Kind::kOther:
      ++totals.other;
      break;
    case Inspected::Kind::kMalformed:
      ++totals.malformed;
      break;
    case Inspected::Kind::kCut:
      ++totals.cut;
      break;
    case Inspected::Kind::kRoce:
      ++totals.roce;
      break;
  }
  for (const Finding& finding : packet.findings) ++totals.by_rule[static_cast<size_t>(finding.rule)];
}

}  // namespace

Totals decode(CaptureFile& file, const DecodeOptions& options, Connections& connections) {
  const auto threads =
      static_cast<size_t>(options.threads > 0 ? options.threads : tbb::info::default_concurrency());
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
  const size_t batches = 2 * threads + 1;
  std::deque<Batch> all(batches);
  tbb::concurrent_bounded_queue<Batch*> idle;
  for (Batch& batch : all) idle.push(&batch);
  Totals totals;
  bool wanted = true;  // of the last stage, and of the first by way of the tokens it waits for
  std::string note;

  const auto read = tbb::make_filter<void, Batch*>(tbb::filter_mode::serial_in_order,
                                                   [&](tbb::flow_control& control) -> Batch* {
                                                     Batch* batch = nullptr;
                                                     idle.pop(batch);
                                                     batch->frames.clear();
                                                     if (__atomic_load_n(&wanted, __ATOMIC_RELAXED))
                                                       file.read(batch->frames, kBatchBytes);
                                                     if (batch->frames.records.empty()) control.stop();
                                                     return batch;
                                                   });
  const auto look = tbb::make_filter<Batch*, Batch*>(tbb::filter_mode::parallel, [&](Batch* batch) {
    inspect(batch->frames, options.lines, batch->inspected);
    return batch;
  });
  const auto follow = tbb::make_filter<Batch*, void>(tbb::filter_mode::serial_in_order, [&](Batch* batch) {
    for (Inspected& packet : batch->inspected) {
      if (!wanted) break;
      note.clear();
      connections.receive(packet, note);
      count(packet, totals);
      if (options.on_frame && !options.on_frame(packet, note))
        __atomic_store_n(&wanted, false, __ATOMIC_RELAXED);
    }
    idle.push(batch);
  });
  tbb::parallel_pipeline(batches, read & look & follow);
  totals.lost = file.frames_lost();
  return totals;
}

}  // namespace uroce::decode
