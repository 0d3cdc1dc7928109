// The bodies of model/files, which reads and writes JSON.
#include "yotta/model/files/impl/checkpoint.ipp"
#include "yotta/model/files/impl/hugging_face.ipp"
#include "yotta/model/files/impl/safetensors.ipp"
#include "yotta/model/files/impl/sharded_checkpoint.ipp"
