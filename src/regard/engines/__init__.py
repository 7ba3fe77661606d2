"""Ways to execute a trained model: the reference engine, fused engines for CPU and GPU, mask-predict, CTranslate2."""
