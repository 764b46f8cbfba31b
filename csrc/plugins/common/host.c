#include "host.h"

#include <stdatomic.h>

static _Atomic(const mblob_host *) given_host;

int mb_host_start(const mblob_host *host) {
  if (host->abi_version != MBLOB_PLUGIN_ABI || host->struct_size < sizeof(*host))
    return host->set_error(MBLOB_E_INCOMPATIBLE,
                           "the plug-in was built for another version of mblob");
  atomic_store(&given_host, host);
  return MBLOB_OK;
}

const mblob_host *mb_plugin_host(void) { return atomic_load(&given_host); }
