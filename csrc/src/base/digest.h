/* digest.h - checksums of the format: CRC-32 (zlib's, IEEE 802.3) and SHA-256 (FIPS 180-4). */
#ifndef MB_DIGEST_H
#define MB_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* Continue `crc` (0 to start) over `size` bytes. */
uint32_t mb_crc32(uint32_t crc, const uint8_t *data, uint64_t size);
/* Whether this processor has instructions for it: the sum then takes a fraction of the time of a
 * copy. */
int mb_crc32_is_fast(void);
void mb_sha256(const uint8_t *data, uint64_t size, uint8_t digest[32]);

#endif
