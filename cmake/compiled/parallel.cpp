// The bodies of parallel/'s pictures.
#include "yotta/parallel/impl/pipeline_picture.ipp"
