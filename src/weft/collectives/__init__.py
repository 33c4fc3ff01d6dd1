from weft.collectives.ring import ring, ring_ordered
