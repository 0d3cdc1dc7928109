// CUDA's words for graphs, in the emulator: work that was captured from streams, made ready once
// and launched again and again with one call.
//
//     capture       launch f, launch g, copy h         recorded with its pointers and sizes
//     instantiate   f ─┬─ g ─┐
//                      └─ h ─┴─                        nodes, and which come after which
//     launch        all of it, in one stream; g and h in any order
//
// A capture forbids, and each call returns its code:
//     to wait for work, so that the host cannot branch on results  ...CaptureUnsupported
//     to allocate and to free                                      ...CaptureUnsupported
//     to use the default stream                                    ...CaptureImplicit
//     to wait for an event from outside                            ...CaptureIsolation
//     to end while another stream is not joined                    ...CaptureUnjoined
// After an error the capture is void.
//
// A graph keeps pointers and sizes. New ones need an update: the same work captured again, of the
// same form. A launch with pointers to memory that was freed since is found here; a GPU would use
// the memory, whoever has it now. That holds for what a kernel gets as a pointer or within a
// struct, for both sides of a copy, and for the data of a host function. Not seen are addresses
// that lie in device memory themselves (an array of pointers), those that a kernel gets as a number
// or computes, and pageable memory of the host; a kernel that uses freed memory through them is
// found under the emulator's checks, when it runs.
// Not emulated: graphs built node by node, memory nodes, graphs in graphs, conditional nodes.
// Reference: CUDA C++ Programming Guide, "CUDA Graphs".
#pragma once

#include <cstddef>

#include "yotta/device/emulator/cuda_errors.hpp"
#include "yotta/device/emulator/task.hpp"

enum cudaGraphExecUpdateResult {
  cudaGraphExecUpdateSuccess,
  cudaGraphExecUpdateError,
  cudaGraphExecUpdateErrorTopologyChanged,
  cudaGraphExecUpdateErrorNodeTypeChanged
};
struct CUgraphNode_st;
using cudaGraphNode_t = CUgraphNode_st*;
struct cudaGraphExecUpdateResultInfo {
  cudaGraphExecUpdateResult result;
  cudaGraphNode_t errorNode, errorFromNode;
};

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream,
                            yotta::Where where = yotta::Where::current());
// The pointers, sizes and lines of another capture of the same work.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info);
// How many nodes there are; nodes must be null.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

#ifndef YOTTA_COMPILED
#include "yotta/device/emulator/impl/graph_words.ipp"
#endif
