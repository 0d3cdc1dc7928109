// The bodies of device/emulator/graph_words.hpp.
#pragma once

#include "yotta/device/emulator/graph_words.hpp"

#include "yotta/device/emulator/stream_queue.hpp"

YOTTA_INLINE cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                              unsigned long long) {
  auto& streams = yotta::StreamQueue::instance();
  if (exec == nullptr) return cudaErrorInvalidValue;
  *exec = nullptr;
  if (!streams.known(graph)) return cudaErrorInvalidValue;
  *exec = streams.instantiate(*graph);
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream,
                                         yotta::Where where) {
  return yotta::StreamQueue::instance().launch(exec, stream, where);
}

YOTTA_INLINE cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                             cudaGraphExecUpdateResultInfo* info) {
  const auto& streams = yotta::StreamQueue::instance();
  if (info == nullptr || !streams.known(exec) || !streams.known(graph))
    return cudaErrorInvalidValue;
  *info = {cudaGraphExecUpdateSuccess, nullptr, nullptr};
  if (exec->nodes.size() != graph->nodes.size())
    info->result = cudaGraphExecUpdateErrorTopologyChanged;
  for (size_t i = 0; i < exec->nodes.size() && info->result == cudaGraphExecUpdateSuccess; ++i) {
    const yotta::GraphNode &old = exec->nodes[i], &now = graph->nodes[i];
    if (old.after != now.after) info->result = cudaGraphExecUpdateErrorTopologyChanged;
    if (old.operation.word != now.operation.word)
      info->result = cudaGraphExecUpdateErrorNodeTypeChanged;
  }
  if (info->result != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
  exec->nodes = graph->nodes;
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                           size_t* count) {
  if (count == nullptr || !yotta::StreamQueue::instance().known(graph))
    return cudaErrorInvalidValue;
  if (nodes != nullptr) return cudaErrorNotSupported;
  *count = graph->nodes.size();
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return yotta::StreamQueue::instance().destroy(graph);
}

YOTTA_INLINE cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return yotta::StreamQueue::instance().destroy(exec);
}
