"""LoPub (Ren et al., TIFS 2018), with which Castell compares itself: Bloom filters and Lasso."""
